//! Ablation: the change in loss, probabilities and text when parts of the model are switched off. The output of a part is
//! replaced by zero, or by its mean over a reference text, which keeps its constant contribution and removes what depends
//! on this text.

use crate::component::Component;
use crate::error::{InvalidRequest, Result};
use crate::subject::{Subject, last_row};
use crate::surprisal::{Reading, reading_with};
use candle_core::Tensor;
use minigpt_model::{BlockSite, Hook, Recording, Site};
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts that are switched off, and what stands in their place: a hook.
#[derive(Debug, Clone)]
pub struct Ablation {
    components: Vec<Component>,
    /// What stands in the place of a site: (1, 1, …) as the site has it. Zero where there is none.
    means: Option<BTreeMap<Site, Tensor>>,
}

/// How a model reads a text with all of its parts, and without some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AblationReport {
    /// The parts that were off.
    pub off: Vec<Component>,
    /// `zero`, or `mean`.
    pub replaced_by: &'static str,
    /// With all parts.
    pub before: AblationOutcome,
    /// Without.
    pub after: AblationOutcome,
}

/// How a model reads a text, and how it would go on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AblationOutcome {
    /// Loss, candidates and the surprisal of each token.
    #[serde(flatten)]
    pub reading: Reading,
    /// The likeliest tokens that follow, one after the other.
    pub continuation: Vec<u32>,
    /// Their text; none without a tokenizer.
    pub continuation_text: Option<String>,
}

impl Ablation {
    /// Parts that write zero.
    pub fn zero(subject: &Subject, components: &[Component]) -> Result<Self> {
        components.iter().try_for_each(|component| component.check(subject))?;
        Ok(Self { components: components.to_vec(), means: None })
    }

    /// Parts that write their mean over all positions of a reference text.
    pub fn mean(subject: &Subject, components: &[Component], reference: &[u32]) -> Result<Self> {
        let Self { components, .. } = Self::zero(subject, components)?;
        subject.check_text(reference)?;
        let mut seen = Recording::of(components.iter().flat_map(|component| component.sites()));
        subject.logits(reference, &mut seen)?;
        let mean = |(site, x): (Site, Tensor)| Ok((site, x.mean_keepdim(1)?)); // (1, 1, …)
        let means = seen.into_kept().into_iter().map(mean).collect::<candle_core::Result<_>>()?;
        Ok(Self { components, means: Some(means) })
    }

    /// What stands in the place of all that a site has.
    fn replacement(&self, site: Site, x: &Tensor) -> candle_core::Result<Tensor> {
        match self.means.as_ref().and_then(|means| means.get(&site)) {
            Some(mean) => mean.broadcast_as(x.shape())?.contiguous(),
            None => x.zeros_like(),
        }
    }
}

impl Hook for Ablation {
    fn wants(&self, site: Site) -> bool {
        self.components.iter().any(|component| component.sites().contains(&site))
    }

    fn at(&mut self, site: Site, x: &Tensor) -> candle_core::Result<Option<Tensor>> {
        let replacement = self.replacement(site, x)?;
        if !matches!(site, Site::Block(_, BlockSite::Z)) {
            return Ok(Some(replacement));
        }
        // (B, T, H, D): the other heads stay.
        let mut heads: Vec<Tensor> = x.chunk(x.dim(2)?, 2)?;
        for component in &self.components {
            if let Component::Head { head, .. } = *component
                && component.sites().contains(&site)
            {
                heads[head] = replacement.narrow(2, head, 1)?;
            }
        }
        Tensor::cat(&heads, 2).map(Some)
    }
}

/// What to compute besides the loss.
#[derive(Debug, Clone, Copy)]
pub struct AblationOptions {
    /// How many candidates for what comes next.
    pub top: usize,
    /// Number of tokens to continue the text by.
    pub continuation: usize,
}

/// How a model reads a text with all of its parts, and without some: replaced by their mean over a reference text if there
/// is one, by zero otherwise.
pub fn ablate(
    subject: &Subject,
    ids: &[u32],
    components: &[Component],
    reference: Option<&[u32]>,
    options: AblationOptions,
) -> Result<AblationReport> {
    if components.is_empty() {
        return Err(InvalidRequest::NothingToSwitchOff.into());
    }
    let mut off = match reference {
        Some(reference) => Ablation::mean(subject, components, reference)?,
        None => Ablation::zero(subject, components)?,
    };
    let before = outcome(subject, ids, options, &mut Recording::default())?;
    let after = outcome(subject, ids, options, &mut off)?;
    let replaced_by = if reference.is_some() { "mean" } else { "zero" };
    Ok(AblationReport { off: off.components, replaced_by, before, after })
}

fn outcome(
    subject: &Subject,
    ids: &[u32],
    options: AblationOptions,
    hook: &mut dyn Hook,
) -> Result<AblationOutcome> {
    let reading = reading_with(subject, ids, options.top, hook)?;
    let mut text = ids.to_vec();
    // A hook sees whole passes; these few tokens are worth no cache.
    while text.len() < ids.len() + options.continuation && text.len() < subject.config().block_size {
        let next = last_row(&subject.logits(&text, hook)?)?;
        text.push(subject.likeliest(&next, 1)[0].id);
    }
    let continuation = text.split_off(ids.len());
    let continuation_text = subject.text(&continuation);
    Ok(AblationOutcome { reading, continuation, continuation_text })
}
