//! Messages of minigpt-train.

use super::{Chinese, nested, outside};
use minigpt_train::record::{self, DamagedLine, Warning};
use minigpt_train::{
    AbortReason, Answers, Best, Change, CheckpointError, Compared, Error, KeptCheckpoints, LauncherKind,
    MpiError, NotFinite, RankError,
};
use serde_json::Value;
use std::error::Error as _;

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::OutOfRange(error) => error.chinese(),
            Self::NoQuestions => "best_by 是 answers，但这次训练没有可问的问题".to_owned(),
            Self::Checkpoint(error) => error.chinese(),
            Self::OtherRun(change) => {
                let Change { setting, from, to, step: _ } = &**change;
                let (from, to) = (shown(from), shown(to));
                format!(
                    "这次训练开始时 {setting} = {from}，不能改用 {to} 继续：那就是另一次训练了。请另开一次训练，也可以从这次的模型开始"
                )
            }
            Self::OtherData { what, then, now } => {
                format!("这次训练开始时用的是另一个{}（{then}），不是现在这个（{now}）", what.chinese())
            }
            Self::Locked(path) => {
                format!("{}：另一个进程正在这里训练；请等它结束，或换一个文件夹", path.display())
            }
            Self::ForeignFolder { path, name } => {
                format!("{} 中有不是训练写出的 {name}：请换一个目录", path.display())
            }
            Self::Diverged { step, what, value, kept } => format!(
                "第 {step} 步：{}是 {value}：训练已发散。这一步没有保存任何东西：{}。请降低 learning_rate、加长 warmup_iters、降低 weight_decay，或设 grad_clip = 1.0",
                what.chinese(),
                kept.chinese()
            ),
            Self::Judge(error) => format!("无法向模型提问：{}", nested(&**error)),
            Self::NoGradient(name) => {
                format!("{name} 没有得到梯度：损失与它无关，或者有某个运算没有被记录")
            }
            Self::Io { path, problem } => format!("{}：{}", path.display(), nested(problem)),
            Self::File(error) => error.chinese(),
            Self::Format(error) => error.chinese(),
            Self::Model(error) => error.chinese(),
            Self::Data(error) => error.chinese(),
            Self::Tokenizer(error) => error.chinese(),
            Self::Record(error) => error.chinese(),
            Self::Threads(error) => format!(
                "系统不再提供更多线程（{}）；RAYON_NUM_THREADS 决定申请多少个",
                outside(&error.to_string())
            ),
            Self::OtherRank(error) => error.chinese(),
            Self::Mpi(error) => error.chinese(),
            Self::Watchdog(error) => format!("系统不提供用于监视其他进程的线程：{}", nested(error)),
            Self::Tensor(error) => outside(&error.to_string()),
        }
    }
}

impl Chinese for CheckpointError {
    fn chinese(&self) -> String {
        match self {
            Self::RunExists(path) => {
                format!("{}：这个文件夹里已有一次训练；请继续它，或换一个文件夹", path.display())
            }
            Self::NotWritten { path, problem } => {
                format!("无法写入 {}：{}", path.display(), outside(problem))
            }
            Self::BadState { path: Some(path), problem } => {
                format!("{}：不是训练状态：{}", path.display(), outside(problem))
            }
            Self::BadState { path: None, problem } => format!("不是训练状态：{}", outside(problem)),
            Self::BadOptimizer { path, problem } => {
                format!("{}：不是优化器状态：{}", path.display(), outside(problem))
            }
            Self::BadMoment(name) => format!("优化器的 {name} 缺失或形状不对"),
            Self::Parts { parts, most } => {
                format!("检查点记录每个批次分成 {parts} 份；它必须在 1 到 {most} 之间")
            }
        }
    }
}

impl Chinese for Compared {
    fn chinese(&self) -> String {
        let name = match self {
            Self::Version => "程序版本",
            Self::Data => "数据集",
            Self::Validation => "验证集",
            Self::Tokenizer => "分词器",
            Self::Model => "模型",
            Self::Settings => "设置",
        };
        name.to_owned()
    }
}

impl Chinese for NotFinite {
    fn chinese(&self) -> String {
        match self {
            Self::Loss => "损失".to_owned(),
            Self::ValidationLoss => "验证损失".to_owned(),
            Self::GradientNorm => "梯度范数".to_owned(),
            Self::Weight(name) => format!("权重 {name} "),
            Self::Moment(name) => format!("优化器的 {name} "),
        }
    }
}

impl Chinese for KeptCheckpoints {
    fn chinese(&self) -> String {
        let last = match self.last {
            None => "还没有检查点".to_owned(),
            Some(step) => format!("last/ 保存着第 {step} 步，其权重和动量都是有限值"),
        };
        let best = match self.best {
            Some(Best { step, val_loss: Some(loss), .. }) => {
                format!("；best/ 保存着第 {step} 步，验证损失 {loss:.4}")
            }
            Some(Best { step, answers: Some(Answers { right, asked }), .. }) => {
                format!("；best/ 保存着第 {step} 步，{asked} 个问题答对 {right} 个")
            }
            _ => String::new(),
        };
        last + &best
    }
}

impl Chinese for RankError {
    fn chinese(&self) -> String {
        match self {
            Self::Aborted { rank, reason } => format!("第 {rank} 号进程：{}", reason.chinese()),
            Self::Ended(rank) => format!("第 {rank} 号进程已结束"),
            Self::Unreachable(error) => format!("无法与其他进程通信：{}", error.chinese()),
            Self::Malformed { rank } => format!("第 {rank} 号进程发来了格式有误的消息"),
            Self::OtherSize => "第 0 号进程发来的张量大小不对".to_owned(),
            Self::NoParts => "这个批次没有任何部分被计算".to_owned(),
            Self::Encode(problem) => format!("无法编码发给其他进程的消息：{}", outside(problem)),
            Self::Different { rank, what, other, first } => format!(
                "第 {rank} 号进程的{}（{other}）与第 0 号进程的（{first}）不同：所有进程必须用相同的",
                what.chinese()
            ),
            Self::OtherVersion { rank } => format!("第 {rank} 号进程运行的程序版本与第 0 号进程不同"),
        }
    }
}

impl Chinese for AbortReason {
    fn chinese(&self) -> String {
        match self {
            Self::Timeout { seconds } => format!(
                "{seconds:.0} 秒没有收到其他进程的消息：有机器或网络停止响应。请从上一个检查点恢复训练"
            ),
            // In the language of the run already.
            Self::Failed(message) => message.clone(),
        }
    }
}

impl Chinese for MpiError {
    fn chinese(&self) -> String {
        match self {
            Self::NoLibrary { launcher, tried } => format!(
                "本进程由 {} 启动，但无法加载任何 MPI 库（{}）：请安装启动器的库，或用 MINIGPT_MPI_LIBRARY 指定",
                launcher.chinese(),
                tried.join("；")
            ),
            Self::OtherImplementation { launcher, started, library, version, known } => format!(
                "启动器（{}）启动了 {started} 个进程，但库 {}（{version}）只知道 {known} 个：它们不是同一种 MPI 实现。请用 MINIGPT_MPI_LIBRARY 指定启动器自己的库",
                launcher.chinese(),
                library.display()
            ),
            Self::ThreadLevel { provided, needed } => format!(
                "这个 MPI 库不能用于多线程程序：它提供的线程级别是 {provided}，而需要 MPI_THREAD_FUNNELED（{needed}）。请安装支持线程的 MPI，或用 MINIGPT_MPI_LIBRARY 指定"
            ),
            Self::BufferSize => "缓冲区与收到的数据大小不符".to_owned(),
            Self::TooLong { bytes } => format!("{bytes} 字节超出一条消息的上限"),
            Self::Library(message) => outside(message),
        }
    }
}

impl Chinese for LauncherKind {
    fn chinese(&self) -> String {
        let name = match self {
            Self::OpenMpi => "Open MPI",
            Self::MpichOrSlurm => "MPICH 或 Slurm",
            Self::Pmix => "使用 PMIx 的启动器",
        };
        name.to_owned()
    }
}

impl Chinese for record::Error {
    fn chinese(&self) -> String {
        match self {
            Self::Io { action, path, source: _ } => format!("无法{} {}", action.chinese(), path.display()),
            Self::Line { path, line, problem } => {
                format!("{} 第 {line} 行：{}", path.display(), outside(problem))
            }
            Self::Replace(error) => error.chinese(),
        }
    }
}

impl Chinese for Warning {
    fn chinese(&self) -> String {
        match self {
            Self::NotRecorded(error) => format!("{}；训练继续，但缺了它", with_source(error, error.source())),
            Self::NotKept(error) => format!("{}；训练继续，但缺了它", with_source(error, error.source())),
            Self::Damaged { path, damaged, copy } => {
                let (path, copy) = (path.display(), copy.display());
                match &damaged[..] {
                    [DamagedLine { line, problem }] => format!(
                        "{path}：第 {line} 行不是记录（{}），已略去；原来的文件保存为 {copy}",
                        outside(problem)
                    ),
                    damaged => format!(
                        "{path}：有 {} 行不是记录（第一处在第 {} 行），已略去；原来的文件保存为 {copy}",
                        damaged.len(),
                        damaged.first().map_or(0, |first| first.line)
                    ),
                }
            }
            Self::Begun { path } => format!("{} 不见了：重新开始记录，不含之前的步", path.display()),
            Self::SetAside { path, aside } => {
                format!("{} 不是这次训练写的：已移到 {}", path.display(), aside.display())
            }
            Self::Moved { from, to } => {
                format!("训练目录 {} 已被移动：训练在 {} 中继续", from.display(), to.display())
            }
            Self::Removed { path } => format!("训练目录 {} 已被删除：训练会重新建立它", path.display()),
            Self::Replaced { path, to } => {
                format!("{} 已不是这次训练的目录：训练在 {} 中继续", path.display(), to.display())
            }
        }
    }
}

/// An error with what the system says, unless the error's text has that already.
fn with_source(error: &impl Chinese, source: Option<&(dyn std::error::Error + 'static)>) -> String {
    let text = error.chinese();
    match source.map(nested) {
        Some(cause) if !text.contains(&cause) => format!("{text}：{cause}"),
        _ => text,
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() { "未设置".to_owned() } else { value.to_string() }
}

impl Chinese for Change {
    fn chinese(&self) -> String {
        format!("{}：{} → {}", self.setting, shown(&self.from), shown(&self.to))
    }
}
