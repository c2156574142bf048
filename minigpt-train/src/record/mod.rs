//! What a training run leaves for people and programs to look at: numbers (`metrics.jsonl`), texts (`samples.jsonl`), TensorBoard's event
//! files, and charts of the loss. All of it is made from one [`StepRecord`] per logged step; no clock is read here.

mod curve;
mod error;
mod log_file;
mod metrics;
mod samples;
mod summary;
mod tensorboard;
mod warning;

pub use curve::{Axis, Labels, labeled_loss_chart, loss_chart};
pub use error::{Error, Result};
pub use metrics::{Log, Metrics, read};
pub(crate) use samples::SampleLog;
pub use summary::Summary;
pub use tensorboard::{EventFile, tag};
pub use warning::{DamagedLine, Warning};

use crate::best::Answers;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One logged step.
///
/// JSON has no word for a number that is not finite. Such a number is written as `null` and read back as NaN, so
/// that a loss that left all bounds stays in the file at its step. In `val_loss`, `null` is a validation that came
/// out as NaN; a step without a validation has no such field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Steps taken so far.
    pub step: u64,
    /// Mean training loss of the step.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// Learning rate of the step.
    #[serde(deserialize_with = "number")]
    pub lr: f64,
    /// Global norm of the gradients, before clipping.
    #[serde(deserialize_with = "number")]
    pub grad_norm: f64,
    /// Speed of training since the last record.
    #[serde(deserialize_with = "number")]
    pub tokens_per_second: f64,
    /// Tokens seen in all.
    pub tokens: u64,
    /// Seconds of training in all.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// How many epochs are over, at the end of one, where training counts epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Mean training loss over the tokens of that epoch.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "measured")]
    pub epoch_loss: Option<f64>,
    /// Validation loss, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "measured")]
    pub val_loss: Option<f64>,
    /// Questions answered, where they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// Norm of the gradients of each layer (`wte`, `h.0`, …, `ln_f`), before clipping; that of all is `grad_norm`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "numbers")]
    pub grad_norms: BTreeMap<String, f64>,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn numbers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    let numbers = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?.into_iter();
    Ok(numbers.map(|(name, number)| (name, number.unwrap_or(f64::NAN))).collect())
}

fn measured<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<f64>, D::Error> {
    number(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(record: &StepRecord) -> String {
        serde_json::to_string(record).unwrap()
    }

    #[test]
    fn a_record_is_one_flat_object_with_the_validation_only_where_measured() {
        let record = StepRecord { step: 10, loss: 2.5, lr: 1e-3, tokens: 7680, ..StepRecord::default() };
        let line = r#"{"step":10,"loss":2.5,"lr":0.001,"grad_norm":0.0,"tokens_per_second":0.0,"tokens":7680,"seconds":0.0"#;
        assert_eq!(written(&record), format!("{line}}}"));
        let validated = StepRecord { val_loss: Some(2.25), ..record };
        assert_eq!(written(&validated), format!("{line},\"val_loss\":2.25}}"));
        let grad_norms = [("h.0", 0.5), ("wte", 0.25)].map(|(name, norm)| (name.to_owned(), norm)).into();
        let validated = StepRecord { grad_norms, ..validated };
        assert!(written(&validated).ends_with(r#","grad_norms":{"h.0":0.5,"wte":0.25}}"#));
        assert_eq!(serde_json::from_str::<StepRecord>(&written(&validated)).unwrap(), validated);
        let ended = StepRecord { epoch: Some(3), epoch_loss: Some(2.75), ..validated };
        assert!(
            written(&ended)
                .starts_with(&format!("{line},\"epoch\":3,\"epoch_loss\":2.75,\"val_loss\":2.25,"))
        );
        assert_eq!(serde_json::from_str::<StepRecord>(&written(&ended)).unwrap(), ended);
    }

    #[test]
    fn numbers_that_are_not_finite_are_null_and_come_back_as_nan() {
        let record = StepRecord {
            loss: f64::NAN,
            grad_norm: f64::INFINITY,
            val_loss: Some(f64::NAN),
            grad_norms: [("wte".to_owned(), f64::NAN)].into(),
            ..StepRecord::default()
        };
        let line = written(&record);
        assert!(line.contains(r#""loss":null"#) && line.contains(r#""val_loss":null"#), "{line}");
        let read: StepRecord = serde_json::from_str(&line).unwrap();
        assert!(read.loss.is_nan() && read.grad_norm.is_nan() && read.val_loss.unwrap().is_nan());
        assert!(read.grad_norms["wte"].is_nan());
        assert_eq!(read.lr, 0.0);
    }

    #[test]
    fn what_a_later_version_adds_is_no_obstacle_but_what_is_missing_is() {
        let line = written(&StepRecord::default());
        let more = line.replace("{\"step\"", "{\"memory\":5,\"step\"");
        assert!(serde_json::from_str::<StepRecord>(&more).is_ok());
        assert!(serde_json::from_str::<StepRecord>(&line.replace("loss", "cost")).is_err());
    }
}
