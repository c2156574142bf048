//! Messages of minigpt-scaling.

use super::Chinese;
use minigpt_scaling::{Error, FEWEST_RUNS, FEWEST_SIZES, LineProblem, Publication, Withheld};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::NoColumn { name, columns } => {
                format!("没有名为 {name} 的列；现有的列：{}", columns.join("、"))
            }
            Self::Line { line, problem } => format!("第 {line} 行：{}", problem.chinese()),
            Self::NoRun { rows } => format!("{rows} 行中没有可用的训练结果：请检查筛选条件和列名"),
            Self::TooFewRuns { runs, sizes, token_counts } => format!(
                "{runs} 次训练，{sizes} 种规模，{token_counts} 种词元数：该定律有五个参数，至少需要 {FEWEST_RUNS} 次训练、\
                 {FEWEST_SIZES} 种规模和 {FEWEST_SIZES} 种词元数"
            ),
            Self::TooManyRuns { runs, most } => format!("{runs} 次训练太多，最多能拟合 {most} 次"),
            Self::TooFewRepeatedRuns { runs, fewest } => {
                format!("有 {runs} 次训练重复使用了数据；要拟合重复数据的价值，至少需要 {fewest} 次")
            }
            Self::SinglePassRuns(error) => format!("在没有重复使用数据的训练中：{}", error.chinese()),
            Self::Delta { delta } => format!("delta 为 {delta}；必须大于 0"),
        }
    }
}

impl Chinese for LineProblem {
    fn chinese(&self) -> String {
        match self {
            Self::FieldCount { fields, expected } => {
                format!("该行有 {fields} 个字段，而表头有 {expected} 个")
            }
            Self::NotUtf8 => "不是 UTF-8 文本".to_owned(),
            Self::NotPositive { name, text } => format!("{name} 是 {text:?}，不是大于 0 的数"),
            Self::TooLarge { name, text, limit } => format!("{name} 是 {text:?}，应小于 {limit:e}"),
            Self::Csv(message) => message.clone(),
        }
    }
}

impl Chinese for Publication {
    fn chinese(&self) -> String {
        match self {
            Self::Chinchilla => {
                "Besiroglu 等人 2024 年对 Hoffmann 等人 2022 年结果的复现，适用于词表约 32,000 个词元的网络文本".to_owned()
            }
        }
    }
}

impl Chinese for Withheld {
    fn chinese(&self) -> String {
        let reason = match self {
            Self::SmallVocabulary => "已发表的定律适用于约 32,000 个子词的词表；在这里，每词元的损失含义不同",
            Self::SmallModel => "已发表的定律适用于四千万参数以上的模型",
            Self::FewTokens => "已发表的定律适用于数十亿词元的训练",
        };
        reason.to_owned()
    }
}
