//! Snapshots: copies of a small model as it was after some steps, for looking back at how it learned. They stand close to each
//! other at the beginning, where most happens, and ever farther apart later on. Nothing reads them but people: a run that is
//! killed and goes on writes them again as they were.

use super::Trainer;
use crate::checkpoint::Model;
use crate::error::Result;
use crate::event::Observer;
use crate::run_folder::SNAPSHOTS;
use minigpt_formats::hugging_face::{self, SaveOptions};
use minigpt_kernels::ElementType;
use minigpt_model::parameters::Count;

/// Snapshots of a run whose settings do not say how many.
const ORDINARY: u64 = 16;
/// The largest model, in parameters, of which they are kept unasked: 10 MB each.
const LARGEST: u64 = 5_000_000;

impl Trainer {
    /// Keeps a copy of the model in f16 as `snapshots/step-N`, if one is due after the steps made.
    pub(super) fn keep_snapshot(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let unasked = if Count::of(self.gpt.config()).total <= LARGEST { ORDINARY } else { 0 };
        let step = self.state.step;
        if !is_due(step, self.steps, self.config.snapshots.unwrap_or(unasked)) {
            return Ok(());
        }
        self.locate(observer)?;
        // Of several ranks one has the folder.
        let Some(run) = &self.run else { return Ok(()) };
        let Model { gpt, extra, tokenizer, .. } = self.model();
        let kept = run.replace_own(&format!("{SNAPSHOTS}/step-{step}"), |target| {
            let options = SaveOptions { element_type: ElementType::F16, ..SaveOptions::default() };
            hugging_face::save_as(gpt.view(), extra, target, options, &mut |_, _| {})?;
            tokenizer.map_or(Ok(()), |tokenizer| Ok(tokenizer.save(target)?))
        });
        self.warn_of(kept, observer);
        Ok(())
    }
}

/// Whether one of `count` snapshots of a run of `steps` steps is due: the first before the first step, the last after the last,
/// the others after steps^(k/(count − 2)).
fn is_due(step: u64, steps: u64, count: u64) -> bool {
    if count == 0 {
        return false;
    }
    let between = count.saturating_sub(2).max(1);
    let at = |k: u64| (steps as f64).powf(k as f64 / between as f64).round() as u64;
    step == steps || (count > 1 && step == 0) || (count > 2 && (0..between).any(|k| at(k) == step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(steps: u64, count: u64) -> Vec<u64> {
        (0..=steps).filter(|&step| is_due(step, steps, count)).collect()
    }

    #[test]
    fn snapshots_are_close_at_the_beginning_and_far_apart_at_the_end() {
        assert_eq!(due(1000, 5), [0, 1, 10, 100, 1000]);
        assert_eq!(due(2000, 16).len(), 16);
        assert_eq!(due(5, 16), [0, 1, 2, 3, 4, 5]);
        assert_eq!((due(9, 0), due(9, 1), due(9, 2)), (vec![], vec![9], vec![0, 9]));
        assert_eq!(due(1, 16), [0, 1]);
    }
}
