//! Messages of the facade crate, `minigpt`.

use super::{Chinese, after_chinese};
use minigpt::settings::SettingError;
use minigpt::sweep::SweepError;
use minigpt::{
    CacheProblem, ChatSettingError, ChatSettings, ConversationError, Error, HubError, MOST_MINUTES, Missing,
    NoModel, NotAModel, RunError, RunNote, TokenizerMismatch, UnknownNetwork, list,
};
use minigpt_charts::{bytes, count};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Setting(error) => error.chinese(),
            Self::Place { line, column, shown, cause } => {
                format!("第 {line} 行第 {column} 列：{}\n{shown}", cause.chinese())
            }
            Self::Config { path, source: _ } => format!("{}：不是有效的配置", path.display()),
            Self::Run(error) => error.chinese(),
            Self::NoModel(error) => error.chinese(),
            Self::NoTokenizer(path) => format!("{} 中没有分词器（tokenizer.json）", path.display()),
            Self::Conversation(error) => error.chinese(),
            Self::ChatSetting(error) => error.chinese(),
            Self::Hub(error) => error.chinese(),
            Self::Sweep(error) => error.chinese(),
            Self::Network(error) => error.chinese(),
            Self::Scratch(_) => "无法创建临时文件夹".to_owned(),
            Self::Chat(error) => error.chinese(),
            Self::Dataset(error) => error.chinese(),
            Self::File(error) => error.chinese(),
            Self::Format(error) => error.chinese(),
            Self::Model(error) => error.chinese(),
            Self::Generate(error) => error.chinese(),
            Self::Insight(error) => error.chinese(),
            Self::Tokenizer(error) => error.chinese(),
            Self::Scaling(error) => error.chinese(),
            Self::Train(error) => error.chinese(),
        }
    }
}

impl Chinese for SettingError {
    fn chinese(&self) -> String {
        match self {
            Self::Unknown { name, near: None } => format!("没有 {name} 这项设置"),
            Self::Unknown { name, near: Some(near) } => {
                format!("没有 {name} 这项设置；您是不是想写 {near}？")
            }
            Self::UnknownSection(section) => {
                format!("没有 [{section}] 这一节；可用的有 [model]、[data]、[train] 和 [sample]")
            }
            Self::NotASection(section) => format!("{section} 不是一节"),
            Self::NoValue(text) => format!("{text}：应写成 key=value，例如 n_layer=2"),
            Self::NotAllowed { name, value, allowed } => {
                format!("{name} 是 {value}；它必须是{}", after_chinese(allowed))
            }
            Self::Malformed { name, value, problem } => format!("{name} 是 {value}：{problem}"),
            // The parser's own text.
            Self::Syntax(_) => "TOML 语法有误".to_owned(),
            Self::TwoLengths => "train.epochs 和 train.max_iters 都规定了训练长度：请只写其中一个".to_owned(),
            Self::NoData => "没有设置 data.path：要用什么数据训练？".to_owned(),
            Self::Model(error) => format!("model.{}", error.chinese()),
        }
    }
}

impl Chinese for RunError {
    fn chinese(&self) -> String {
        match self {
            Self::NoRun(path) => format!("{}：没有可以继续的训练", path.display()),
            Self::Exists(path) => format!("{}：这个目录里已经有一次训练", path.display()),
            Self::NotUnicode(path) => format!("{}：训练目录的名称不是有效的 Unicode", path.display()),
            Self::Memory { needed, available } => format!(
                "训练这个模型约需 {} 内存，但只有 {} 可用；请减小 train.batch_size（同时增大 \
                 train.gradient_accumulation_steps）、model.block_size 或 model.n_embd",
                bytes(*needed),
                bytes(*available)
            ),
            Self::Minutes(minutes) => {
                format!("分钟数：{minutes:?}；它必须大于 0，最多 {}", count(MOST_MINUTES as u64))
            }
            Self::OtherShape { name, value, base, key, has } => format!(
                "{name} 是 {value}，但 {} 中的模型 model.{key} = {has}：微调时结构不变",
                base.display()
            ),
            Self::OtherTokenizer { wanted, base } => format!(
                "data.tokenizer 是 {wanted}，但 {} 中的模型有自己的分词器，微调时继续使用：请去掉 data.tokenizer",
                base.display()
            ),
            Self::LongerContext { wanted, base, most } => format!(
                "model.block_size 是 {wanted}，但 {} 中的模型是 {most}：上下文只能缩短，不能加长",
                base.display()
            ),
            Self::HasWeights(base) => format!("model.init：{} 中的模型已经有权重了", base.display()),
            Self::PresetOfResumed => "model.preset：继续训练时模型保持不变".to_owned(),
            Self::SmallVocabulary { tokens, model } => {
                format!("分词器有 {tokens} 个词元，而模型只有 {model} 个")
            }
            Self::NoTemplate => "data.format 是 own，但没有带对话模板的模型可供微调".to_owned(),
            Self::NoEndToken => {
                "模型的文件没有说明哪个词元结束回答（eos_token）；用 data.format = questions \
                                 可换一种格式训练"
                    .to_owned()
            }
            Self::NotForText { setting, path } => {
                format!("{setting} 只用于问答，而 {path} 是连续文本，按 model.block_size 个词元切分")
            }
            Self::OtherCharacters(path) => {
                format!("{path}：这些词元是用旁边的 meta.pkl 生成的，其中的字符不是这个模型的词元")
            }
            Self::NoQuestions(path) => format!("train.best_by 是 answers，但 {path} 中没有问答"),
            Self::NothingToRehearse(path) => format!("data.rehearse_path：{path} 中没有问答"),
            Self::NoValidation(path) => format!("{path}：没有验证数据"),
            Self::NothingToPredict => "数据中没有可预测的词元".to_owned(),
            Self::NoAnswers => "数据没有标明答案在哪里".to_owned(),
            Self::Message(problem) => format!("第 0 号进程发来了无法理解的内容：{problem}"),
        }
    }
}

impl Chinese for RunNote {
    fn chinese(&self) -> String {
        match self {
            Self::ReadAs { path, read_as } => format!("{path}：{}", read_as.chinese()),
            Self::Damage(damage) => damage.chinese(),
            Self::UnknownCharacters(note) => note.chinese(),
            Self::CharacterVocabulary { size } => {
                format!("词表就是数据中的 {size} 种字符；提示词里的其他字符会被略去")
            }
            Self::TokenizerIgnored { name } => {
                format!("data.tokenizer 是 {name}，但数据已是词元，由旁边的 meta.pkl 生成，因此用它")
            }
            Self::TokenizerMismatch(mismatch) => mismatch.chinese(),
            Self::Rehearsal { path } => format!("每批有一半取自 {path} 原来的训练数据，以免模型遗忘"),
            Self::OwnTemplate { end } => format!("样例按模型自己的对话模板书写，回答以 {end} 结束"),
            Self::TemplateReplaced { end } => {
                format!("模型的对话模板被替换：每个问题和回答都以 {end} 结束")
            }
            Self::KeptAside { path, aside } => {
                format!("{path} 原已存在；旧文件保存为 {}", aside.display())
            }
        }
    }
}

impl Chinese for TokenizerMismatch {
    fn chinese(&self) -> String {
        let Self { path, tokens, model } = self;
        format!(
            "{}：分词器有 {tokens} 个词元，而模型有 {model} 个：这很可能是另一个模型的分词器",
            path.display()
        )
    }
}

impl Chinese for NoModel {
    fn chinese(&self) -> String {
        format!("{}：{}", self.path.display(), self.problem.chinese())
    }
}

impl Chinese for NotAModel {
    fn chinese(&self) -> String {
        match self {
            Self::Missing(missing) => missing.chinese(),
            Self::UnsavedRun => {
                "这次训练还没有保存过模型：它会在第一次验证时、半分钟之后或被停止时保存".to_owned()
            }
            Self::Several { models } => {
                format!("其中有多个模型：{}；请指定其中一个", list(models, "、"))
            }
            Self::PreparedData => "其中是预处理好的数据，不是模型：请先用它训练一个".to_owned(),
            Self::DataSet => "是数据集，不是模型：请先用它训练一个".to_owned(),
            Self::Adapter => "是适配器（LoRA），不是完整的模型：请先把它合并到基础模型中".to_owned(),
            Self::WeightsOnly { file } => format!("其中有权重（{file}），但没有说明其结构的 config.json"),
            Self::TokenizerOnly => "其中有分词器，但没有模型".to_owned(),
            Self::Data { file } => format!("其中是数据（{file}），不是模型：请先用它训练一个"),
            Self::EmptyFolder => "是空文件夹".to_owned(),
            Self::Other => {
                "不是模型：其中没有 config.json、带 best/ 或 last/ 的训练、ckpt.pt 或 GGUF 文件".to_owned()
            }
        }
    }
}

impl Chinese for Missing {
    fn chinese(&self) -> String {
        let nothing = "没有这个文件或文件夹";
        match self {
            Self::Unknown => nothing.to_owned(),
            Self::Run { run } => format!("{nothing}；您是不是想写 {}？", run.display()),
            Self::OnTheHub { name } => format!("{nothing}；模型库中的模型要写成 hf:{name}"),
            Self::Beside { models } => format!("{nothing}；同一文件夹中有 {}", list(models, "、")),
        }
    }
}

impl Chinese for ConversationError {
    fn chinese(&self) -> String {
        match self {
            Self::Empty => "对话中还没有消息".to_owned(),
            Self::Malformed(problem) => format!("不是对话记录：{}", problem.chinese()),
        }
    }
}

impl Chinese for ChatSettingError {
    fn chinese(&self) -> String {
        match self {
            Self::Unknown { name } => {
                format!("没有 {name} 这项设置；可用的有 {}", ChatSettings::NAMES.join("、"))
            }
            Self::NotWhole { name, value } => format!("{name} 是 {value}；它必须是不小于 0 的整数"),
            Self::NotANumber { name, value } => format!("{name} 是 {value}；它必须是数"),
            Self::NotASwitch { name, value } => format!("{name} 是 {value}；它只能是 on 或 off"),
        }
    }
}

impl Chinese for HubError {
    fn chinese(&self) -> String {
        match self {
            Self::NoCacheFolder => "没有主目录，无处存放缓存：请设置 MINIGPT_CACHE".to_owned(),
            Self::NotCached { name, cache } => {
                format!("{name} 不在缓存（{}）中，而离线模式下不能访问模型库", cache.display())
            }
            Self::CacheUnusable { name, folder, problem } => format!(
                "缓存（{}）中的 {name} 无法使用：{}；联网一次即可重新下载",
                folder.display(),
                problem.chinese()
            ),
            Self::NoSuchModel { repository, revision } => {
                format!("模型库中没有模型 {repository} 的版本 {revision}，或者它是私有的，需要 HF_TOKEN")
            }
            Self::NotAListing(problem) => format!("模型库的回复不是文件列表：{problem}"),
            Self::NoCommit => "模型库的回复没有给出提交号".to_owned(),
            Self::NotAName(name) => format!("{name:?} 不是模型名；请写 hf:owner/model"),
            Self::NotARevision(revision) => format!("{revision:?} 不是版本名"),
            Self::NotAHash { file, hash } => format!("模型库的回复中，{file} 的哈希值是 {hash:?}"),
            Self::TooLarge { file, bytes, most } => {
                format!("{file} 有 {bytes} 字节，最多只读取 {most} 字节")
            }
            Self::NoLength(file) => format!("模型库的回复没有说明 {file} 有多大"),
            Self::NoWeights => "模型没有可读取的权重".to_owned(),
            Self::NotAnIndex { file, problem } => format!("{file} 不是权重索引：{problem}"),
            Self::OutsideFolder { index, file } => format!("{index} 提到文件 {file:?}，它不在同一文件夹中"),
            Self::MissingShard { index, file } => format!("{index} 提到 {file}，而模型中没有它"),
        }
    }
}

impl Chinese for CacheProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Unrecorded => "其中的文件没有记录".to_owned(),
            Self::Missing { file } => format!("缺少 {file}"),
            Self::Damaged { file, damage } => format!("{file}：{}", damage.chinese()),
        }
    }
}

impl Chinese for UnknownNetwork {
    fn chinese(&self) -> String {
        format!("没有 {} 这种网络：可用 1GbE、10GbE、100GbE，或带宽和延迟，例如 25Gbit,10us", self.0)
    }
}

impl Chinese for SweepError {
    fn chinese(&self) -> String {
        match self {
            Self::Exists(folder) => {
                format!("{}：此文件夹中已有一组训练；请继续它，或另选文件夹", folder.display())
            }
            Self::NoSweep(folder) => format!("{}：其中没有成组的训练（sweep.json）", folder.display()),
            Self::Malformed { path, problem } => format!("{}：{problem}", path.display()),
            Self::OtherVersion { path, version } => {
                format!("{}：不是版本 {version} 的成组训练", path.display())
            }
            Self::MalformedRuns(path) => format!("{}：其中的各次训练有错", path.display()),
            Self::NotUnicode(path) => format!("{}：文件夹名不是有效的 Unicode", path.display()),
            Self::Flops(flops) => format!("FLOP 数是 {flops}；它必须大于 0"),
            Self::Epochs(epochs) => format!("轮数是 {epochs}；它必须大于 0"),
            Self::Widths => "宽度：需要 4 到 12 个，从小到大排列".to_owned(),
            Self::Width(width) => format!("宽度 {width}：它必须是 8 到 8192 之间 8 的倍数"),
            Self::TooManyEpochs(epochs) => format!(
                "{epochs} 轮：超过 4 轮后，重复出现的词元远不如新词元有用，普通定律不再成立；请使用重复数据定律，或减少轮数"
            ),
            Self::TooManyTokens { title, tokens, most, epochs } => {
                format!("{title}：{tokens} 个词元多于它 {epochs} 轮所含的 {most} 个")
            }
            Self::TooLittleData { title, tokens, tokens_per_step } => format!(
                "{title}：{tokens} 个训练词元太少：最短的一次训练用最长者八分之一的词元，至少应有 40 步，每步 \
                 {tokens_per_step} 个词元"
            ),
            Self::TooFewMinutes { minutes, least } => {
                format!("{minutes:.1} 分钟太短：在这台机器上，最小的一组训练大约需要 {least:.1} 分钟")
            }
            Self::TooFewFlops { flops, least } => {
                format!("{flops:.1e} FLOP 太少：最小的一组训练需要 {least:.1e}")
            }
            Self::NoValidation(title) => format!("{title}：没有验证数据"),
            Self::RunStopped => "内部错误：一次训练停止了".to_owned(),
            Self::MeasurementStopped => "内部错误：一次测量停止了".to_owned(),
        }
    }
}

/// The purpose of a ready configuration in Chinese.
pub fn ready_config(config: &::minigpt::ReadyConfig) -> Option<&'static str> {
    Some(match config.name {
        "builtin" => "内置问答，中文和英文",
        "shakespeare-cpu" => "在 CPU 上训练莎士比亚，双核十几秒",
        "shakespeare-nanogpt" => "nanoGPT 的 README 中用于 CPU 的设置",
        "shakespeare-char" => "nanoGPT 的字符级莎士比亚，完整规模",
        "qa-small" => "中文问答，笔记本电脑也能训练",
        "qa" => "中文问答，完整规模",
        "gpt2" => "从零训练 GPT-2 124M，与 nanoGPT 的做法相同",
        "gpt2-finetune" => "在莎士比亚或自己的文本上微调 GPT-2 模型",
        "textbook" => "教科书里的解码器",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_configuration_has_its_purpose_in_chinese() {
        assert!(::minigpt::READY_CONFIGS.iter().all(|config| ready_config(config).is_some()));
    }
}
