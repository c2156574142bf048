//! The words on a loss chart in the chosen language, for a terminal. In an SVG file they stay English.

use super::{Language, current};
use minigpt_train::record::Labels;

const CHINESE: Labels = Labels {
    loss: "损失",
    training: "训练",
    validation: "验证",
    steps: &[(1.0, "步")],
    tokens: &[(1.0, "词元"), (1e6, "百万词元"), (1e9, "十亿词元")],
    time: &[(1.0, "训练秒数"), (60.0, "训练分钟数"), (3600.0, "训练小时数"), (86_400.0, "训练天数")],
};

/// The words of the chosen language.
pub fn chart_labels() -> &'static Labels {
    match current() {
        Language::En => &Labels::ENGLISH,
        Language::Zh => &CHINESE,
    }
}
