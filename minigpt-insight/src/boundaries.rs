//! Boundaries: do heads look at the ends of sentences, lines and paragraphs, more than at other tokens, and does the loss
//! behind such an end suffer without them? Each share of attention stands beside the share that such tokens have of the text,
//! and beside the same head's share when the tokens are shuffled and the ends stand anywhere.

use crate::ablation::Ablation;
use crate::attention::each_layer;
use crate::component::Component;
use crate::error::{InvalidRequest, Result};
use crate::subject::{Subject, floats, row};
use crate::surprisal::logprob;
use candle_core::Tensor;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

/// By how much a head's share on an end must beat both of its baselines to be called one that looks there.
pub const BOUNDARY_MARGIN: f64 = 0.1;

/// The unit of text that ends at a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// A sentence: `.`, `!`, `?`, `…` and their Chinese sisters.
    Sentence,
    /// A line.
    Line,
    /// A paragraph: the second of two line ends.
    Paragraph,
}

/// Attention of the heads to the ends in a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Boundaries {
    /// How many tokens end something, by kind.
    pub counts: Vec<(Boundary, usize)>,
    /// By kind, layer and head; kinds that the text does not have are left out.
    pub heads: Vec<BoundaryHead>,
    /// By how much a share must beat both baselines.
    pub margin: f64,
}

/// Attention of one head to one kind of end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BoundaryHead {
    /// The layer.
    pub layer: usize,
    /// The head.
    pub head: usize,
    /// The kind of end.
    pub boundary: Boundary,
    /// The share of attention on such tokens, a mean over queries.
    pub share: f64,
    /// The share that such tokens have of what a query may see: that of a head that looks everywhere alike.
    pub frequency: f64,
    /// The share on them when the tokens are shuffled.
    pub shuffled: f64,
    /// Whether the share beats both by the margin.
    pub looks_there: bool,
    /// By how much the loss of the tokens right behind such ends grows when the head writes zero, in nats.
    pub loss_without: f64,
}

/// What ends at each token of a text, given the tokens' own texts.
pub fn boundaries_of(tokens: &[String]) -> Vec<Option<Boundary>> {
    let mut before = String::new();
    let kinds = tokens.iter().map(|token| {
        let kind = boundary(&before, token);
        before = token.trim_end_matches([' ', '\t']).to_owned();
        kind
    });
    kinds.collect()
}

fn boundary(before: &str, token: &str) -> Option<Boundary> {
    let line = |text: &str| text.replace('\r', "").trim_matches([' ', '\t']).to_owned();
    let (token, before) = (line(token), line(before));
    let ends = token.matches('\n').count();
    if ends >= 2 || (ends == 1 && before.ends_with('\n')) {
        return Some(Boundary::Paragraph);
    }
    if ends == 1 {
        return Some(Boundary::Line);
    }
    let last = token.trim_end_matches(['"', '\'', ')', '”', '’', '」', '』', '）']).chars().last()?;
    ['.', '!', '?', '…', '。', '！', '？', '；'].contains(&last).then_some(Boundary::Sentence)
}

/// Measures the attention of the heads to the ends in a text, whose kinds [`boundaries_of`] finds. Takes one forward pass per
/// head, and three more.
pub fn boundaries(
    subject: &Subject,
    ids: &[u32],
    ends: &[Option<Boundary>],
    seed: u64,
) -> Result<Boundaries> {
    assert_eq!(ids.len(), ends.len(), "a kind for each token");
    let kinds: Vec<Boundary> = [Boundary::Sentence, Boundary::Line, Boundary::Paragraph]
        .into_iter()
        .filter(|kind| ends.contains(&Some(*kind)))
        .collect();
    if kinds.is_empty() {
        return Err(InvalidRequest::NoEnds.into());
    }
    let (shares, logits) = shares(subject, ids, ends, &kinds)?;
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let shuffled_ids: Vec<u32> = order.iter().map(|&at| ids[at]).collect();
    let shuffled_ends: Vec<Option<Boundary>> = order.iter().map(|&at| ends[at]).collect();
    let (shuffled, _) = self::shares(subject, &shuffled_ids, &shuffled_ends, &kinds)?;
    let before: Vec<f64> =
        kinds.iter().map(|kind| loss_behind(&logits, ids, ends, *kind)).collect::<Result<_>>()?;

    let mut heads = Vec::new();
    let (n_layer, n_head) = (subject.config().n_layer, subject.config().n_head);
    for (layer, head) in (0..n_layer).flat_map(|layer| (0..n_head).map(move |head| (layer, head))) {
        let mut off = Ablation::zero(subject, &[Component::Head { layer, head }])?;
        let logits = subject.logits(ids, &mut off)?;
        for (kind, boundary) in kinds.iter().copied().enumerate() {
            let at = layer * n_head + head;
            let (share, shuffled) = (shares[at][kind], shuffled[at][kind]);
            let frequency = frequency(ends, boundary);
            heads.push(BoundaryHead {
                layer,
                head,
                boundary,
                share,
                frequency,
                shuffled,
                looks_there: share - frequency.max(shuffled) >= BOUNDARY_MARGIN,
                loss_without: loss_behind(&logits, ids, ends, boundary)? - before[kind],
            });
        }
    }
    heads.sort_by_key(|head| head.boundary);
    let count = |kind: &Boundary| (*kind, ends.iter().filter(|end| **end == Some(*kind)).count());
    Ok(Boundaries { counts: kinds.iter().map(count).collect(), heads, margin: BOUNDARY_MARGIN })
}

/// The share of each head's attention on each kind of end, a mean over queries, by layer and head; and the logits (T, V).
fn shares(
    subject: &Subject,
    ids: &[u32],
    ends: &[Option<Boundary>],
    kinds: &[Boundary],
) -> Result<(Vec<Vec<f64>>, Tensor)> {
    let t = ids.len();
    let mut all = Vec::new();
    let logits = each_layer(subject, ids, |_, patterns| {
        for pattern in floats(patterns)?.chunks(t * t) {
            let on = |kind: &Boundary| {
                let keys: Vec<usize> = (0..t).filter(|&key| ends[key] == Some(*kind)).collect();
                let weights = pattern.chunks(t).flat_map(|row| keys.iter().map(|&key| f64::from(row[key])));
                weights.sum::<f64>() / t as f64
            };
            all.push(kinds.iter().map(on).collect());
        }
        Ok(())
    })?;
    Ok((all, logits))
}

/// The share that a kind of end has of what a query may see, a mean over queries.
fn frequency(ends: &[Option<Boundary>], kind: Boundary) -> f64 {
    let mut count = 0.0;
    let shares = ends.iter().enumerate().map(|(query, end)| {
        count += f64::from(u8::from(*end == Some(kind)));
        count / (query + 1) as f64
    });
    shares.sum::<f64>() / ends.len() as f64
}

/// Mean loss of the tokens right after a kind of end; 0 if there are none.
fn loss_behind(logits: &Tensor, ids: &[u32], ends: &[Option<Boundary>], kind: Boundary) -> Result<f64> {
    let at: Vec<usize> = (0..ids.len() - 1).filter(|&at| ends[at] == Some(kind)).collect();
    let losses = at.iter().map(|&at| Ok(-logprob(&row(logits, at)?, ids[at + 1])));
    Ok(losses.collect::<Result<Vec<f64>>>()?.iter().sum::<f64>() / at.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minigpt_model::{Config, Device, Gpt, Recording};

    #[test]
    fn ends_are_found_in_both_languages() {
        let tokens =
            ["天", "。", "a", " b", ".\"", "\n", "\n", "x", "\n", "y", "\n\n", "3.5"].map(str::to_owned);
        use Boundary::*;
        let want = [
            None,
            Some(Sentence),
            None,
            None,
            Some(Sentence),
            Some(Line),
            Some(Paragraph),
            None,
            Some(Line),
            None,
            Some(Paragraph),
            None,
        ];
        assert_eq!(boundaries_of(&tokens), want);
    }

    #[test]
    fn an_even_head_has_the_share_that_ends_have() {
        let shape =
            Config { n_layer: 1, n_head: 2, n_embd: 8, block_size: 16, vocab_size: 10, ..Config::default() };
        let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
        let subject = Subject::new(&gpt);
        let ids = [1, 2, 0, 3, 4, 0, 5, 1];
        let ends: Vec<_> = ids.iter().map(|&id| (id == 0).then_some(Boundary::Sentence)).collect();
        let found = boundaries(&subject, &ids, &ends, 3).unwrap();
        assert_eq!(found.counts, [(Boundary::Sentence, 2)]);
        assert_eq!(found.heads.len(), 2);
        for head in &found.heads {
            // Fresh weights of 0.02 attend almost evenly.
            assert!((head.share - head.frequency).abs() < 0.01 && !head.looks_there, "{head:?}");
            assert!(head.loss_without.is_finite() && head.shuffled > 0.0);
        }
        let logits = subject.logits(&ids, &mut Recording::default()).unwrap();
        assert!(loss_behind(&logits, &ids, &ends, Boundary::Sentence).unwrap() > 0.0);
        assert!(boundaries(&subject, &ids, &[None; 8], 3).unwrap_err().to_string().contains("no end"));
    }
}
