//! Messages of minigpt-model and minigpt-kernels.

use super::Chinese;
use minigpt_kernels::{ElementType, UnknownElementType};
use minigpt_model::{BlockSite, Error, IdsError, ModelConfigError, Preset, UnknownSite};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Config(error) => error.chinese(),
            Self::Ids(error) => error.chinese(),
            // candle's own text.
            Self::Tensor(error) => error.to_string(),
        }
    }
}

impl Chinese for ModelConfigError {
    fn chinese(&self) -> String {
        match self {
            Self::UnknownPreset { name } => {
                format!("没有 {name:?} 这个预设；可用的有 {}", Preset::ALL.map(Preset::name).join("、"))
            }
            Self::OutOfRange(error) => error.chinese(),
            Self::Heads { name, width, n_head } => format!("{name} {width} 不能被 n_head {n_head} 整除"),
            Self::OddHeads { n_embd, n_head } => format!(
                "position_embedding rope 要求头的宽度是偶数，而 n_embd {n_embd} / n_head {n_head} = {}",
                n_embd / n_head
            ),
            Self::Context { block_size, max } => {
                format!(
                    "block_size 是 {block_size}；计算出的位置编码最多占 256 MiB，这个宽度下 block_size 最大为 {max}"
                )
            }
            Self::Widths { d_model, n_head, d_k, d_v } => {
                format!("d_model {d_model}、n_head {n_head}、d_k {d_k} 和 d_v {d_v} 都必须至少是 1")
            }
            Self::CacheMemory { rows, tokens } => {
                format!("内存不足，放不下 {rows} 个文本、每个 {tokens} 个词元的键和值")
            }
        }
    }
}

impl Chinese for IdsError {
    fn chinese(&self) -> String {
        match self {
            Self::Empty => "没有词元".to_owned(),
            Self::Ragged { row, ids, first } => format!("第 {row} 行有 {ids} 个 id，第 0 行有 {first} 个"),
            Self::OutsideVocabulary { id, position, row, vocab_size } => {
                let row = row.map_or(String::new(), |row| format!("第 {row} 行，"));
                format!("id {id}（{row}位置 {position}）超出了 {vocab_size} 个词元的词表")
            }
            Self::Context { tokens, block_size } => {
                format!("{tokens} 个词元超出了 {block_size} 的上下文")
            }
            Self::NoSuchRow { row, rows } => format!("缓存有 {rows} 行，没有第 {row} 行"),
            Self::RowTwice { row } => format!("第 {row} 行出现了两次"),
            Self::RowFull { row, held, more, block_size } => {
                format!("第 {row} 行有 {held} 个词元；再加 {more} 个就超出 {block_size} 的上下文了")
            }
        }
    }
}

impl Chinese for Preset {
    fn chinese(&self) -> String {
        match self {
            Self::Gpt2 => "GPT-2，1.24 亿参数",
            Self::Gpt2Medium => "GPT-2，3.55 亿参数",
            Self::Gpt2Large => "GPT-2，7.74 亿参数",
            Self::Gpt2Xl => "GPT-2，16 亿参数",
            Self::Gpt3 => "GPT-3 的结构，1750 亿参数：用于估算",
            Self::ShakespeareChar => "nanoGPT 的字符级莎士比亚模型，1070 万参数",
            Self::ShakespeareCpu => "小型莎士比亚模型，CPU 上几分钟即可训练，80 万参数",
            Self::Textbook => "教科书里的解码器：后置归一化、ReLU、输出层不共享权重，70 万参数",
            Self::Qa => "中文问答，一个字符一个词元，4600 万参数",
        }
        .to_owned()
    }
}

impl Chinese for UnknownSite {
    fn chinese(&self) -> String {
        let Self(name) = self;
        format!(
            "没有 {name:?} 这个位置；可用的有 embed、ln_f、logits 和 block.N.SITE，其中 SITE 是 {}",
            BlockSite::names()
        )
    }
}

impl Chinese for UnknownElementType {
    fn chinese(&self) -> String {
        let Self(name) = self;
        format!("{name:?} 不是元素类型；可用的有 {}", ElementType::ALL.map(ElementType::name).join("、"))
    }
}
