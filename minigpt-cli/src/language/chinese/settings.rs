//! Messages of minigpt-settings.

use super::{Chinese, after_chinese};
use minigpt_charts::count;
use minigpt_settings::{Allowed, OutOfRange};
use std::ops::Bound::{Excluded, Included, Unbounded};

impl Chinese for OutOfRange {
    fn chinese(&self) -> String {
        format!("{} 是 {}；它必须是{}", self.key, self.value, after_chinese(&self.allowed))
    }
}

impl Chinese for Allowed {
    fn chinese(&self) -> String {
        match *self {
            Self::Whole(from, Self::LARGEST) => format!("≥ {from} 的整数"),
            Self::Whole(from, to) => format!("{from} 到 {} 的整数", count(to)),
            Self::Number(Included(from), Unbounded) => format!("≥ {from} 的数"),
            Self::Number(Included(from), Excluded(to)) => format!("≥ {from} 且 < {to} 的数"),
            Self::Number(Excluded(from), Excluded(to)) => format!("> {from} 且 < {to} 的数"),
            Self::Number(..) => "数".to_owned(),
            Self::Switch => "true 或 false".to_owned(),
            Self::Word(words) => words.join("、"),
            Self::Text => "文本".to_owned(),
            Self::Names => "名称对照表".to_owned(),
        }
    }
}
