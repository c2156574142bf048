//! Messages of minigpt-insight.

use super::Chinese;
use minigpt_insight::{Error, InvalidRequest, InvalidTreebank, Undefined};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Undefined(reason) => reason.chinese(),
            Self::Request(problem) => problem.chinese(),
            Self::Relations(problem) => problem.chinese(),
            Self::NotFinite(logit) => format!("有一个 logit 是 {logit}：模型的权重已损坏"),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for Undefined {
    fn chinese(&self) -> String {
        match self {
            Self::NotReached(site) => format!("前向计算没有经过 {site}"),
            Self::PostNormAttribution => {
                "后归一化的模型没有归因的定义：每一层都重新归一化整个残差流，各部分写入的内容不会作为求和项到达 logits".to_owned()
            }
            Self::EqualDifferences => "两个 logit 之差在两段文本之后相同：没有可以恢复的部分".to_owned(),
            Self::ContextTooShort { block_size } => {
                format!("注意力头的角色要在重复的词元上测量，{block_size} 个词元的上下文太短")
            }
        }
    }
}

impl Chinese for InvalidRequest {
    fn chinese(&self) -> String {
        match self {
            Self::NoLayer { layer, last } => format!("没有第 {layer} 层：只有 0 到 {last}"),
            Self::NoHead { head, last } => format!("没有第 {head} 头：只有 0 到 {last}"),
            Self::NoToken { id, last } => format!("没有词元 {id}：只有 0 到 {last}"),
            Self::NoPosition { position, last } => format!("没有位置 {position}：只有 0 到 {last}"),
            Self::NoPart { name } => {
                format!("没有 {name:?} 这个部分：第 3 层第 1 头写作 3.1，还有 mlp.3、attn.3、layer.3")
            }
            Self::NothingToSwitchOff => "请指定要关掉的部分".to_owned(),
            Self::EmptyText => "没有可查看的词元".to_owned(),
            Self::TextTooLong { tokens, block_size } => {
                format!("{tokens} 个词元放不进模型 {block_size} 的上下文")
            }
            Self::DifferentLengths { clean, corrupt } => {
                format!("激活替换需要两段词元数相同的文本；这两段分别有 {clean} 和 {corrupt} 个")
            }
            Self::SameTexts => "两段文本相同：没有可替换的内容".to_owned(),
            Self::SameAnswer { id, name } => {
                format!("两段文本都导向词元 {id} {name:?}：请指定另一个词元来对比")
            }
            Self::NoEnds => "文本中没有句末、行末或段末".to_owned(),
            Self::RepeatDistance { distance, most } => {
                format!("词元不能以 {distance} 为间隔重复：间隔应为 2 到 {most}，因为上下文要放得下两份")
            }
        }
    }
}

impl Chinese for InvalidTreebank {
    fn chinese(&self) -> String {
        match self {
            Self::NoSentences => "树库中没有句子".to_owned(),
            Self::NoPairs => "没有一个含有相关词对的句子放得进模型的上下文".to_owned(),
            Self::ColumnCount { line, columns } => {
                format!("第 {line} 行：有 {columns} 列；CoNLL-U 有十列，以制表符分隔")
            }
            Self::WordNumber { line, id, expected } => {
                format!("第 {line} 行：词的编号是 {id:?}，应为 {expected}")
            }
            Self::NotAHead { line, head } => {
                format!("第 {line} 行：中心词是 {head:?}；应为某个词的编号或 0")
            }
            Self::MissingHead { line, word } => {
                format!("第 {line} 行的句子：第 {word} 个词依存于一个不存在的词")
            }
        }
    }
}
