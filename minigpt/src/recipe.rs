//! Chooses a model and its training settings by rule, from a glance at the data and the available compute.
//!
//! The rules come from measured runs; LOG.md has them ("Defaults for one's own text").

use crate::run_plan::TokenCount;
use minigpt_data::{CorpusKind, Glance};
use minigpt_model::Config;
use minigpt_model::plan::Plan;
use toml::{Table, Value};

/// Minimum number of training tokens per parameter.
const SEEN_A_PARAMETER: f64 = 5.3;
/// Minimum number of distinct tokens of data per parameter.
const TOKENS_A_PARAMETER: f64 = 0.06;
/// Epochs after which a run ends even if time is left: of 100 epochs over 50 KB, the best model came after 51, and the rest
/// overfitted.
pub(crate) const MOST_EPOCHS: u64 = 100;
/// Largest number of questions and answers to memorize completely. Of 2,000, a model of width 96 answered 90 % after 2,383
/// steps with the learning rate still high; with more, generalization matters.
pub(crate) const MOST_BY_HEART: u64 = 3_000;
/// Default number of epochs to memorize questions: 20 and 200 questions in English and in Chinese were all answered after 75
/// and 160.
pub(crate) const EPOCHS_BY_HEART: u64 = 400;
/// Maximum number of heads.
const MOST_HEADS: usize = 1 << 12;
/// A text with fewer characters is small: it is trained on characters in short contexts.
const SMALL_TEXT: u64 = 200_000;

/// From small to large.
const SIZES: [Size; 8] = [
    Size { n_layer: 2, n_head: 2, n_embd: 64 },
    Size { n_layer: 3, n_head: 3, n_embd: 96 },
    Size { n_layer: 4, n_head: 4, n_embd: 128 },
    Size { n_layer: 4, n_head: 4, n_embd: 192 },
    Size { n_layer: 4, n_head: 4, n_embd: 256 },
    Size { n_layer: 6, n_head: 6, n_embd: 384 },
    Size { n_layer: 8, n_head: 8, n_embd: 512 },
    Size { n_layer: 12, n_head: 12, n_embd: 768 },
];

/// Settings that are given; the rest is chosen to suit them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub n_layer: Option<usize>,
    pub n_head: Option<usize>,
    pub n_embd: Option<usize>,
    pub block_size: Option<usize>,
    pub batch_size: Option<usize>,
    pub tokenizer: Option<String>,
    /// Length of the run in steps or in epochs.
    pub max_iters: Option<u64>,
    pub epochs: Option<u64>,
    /// Whether a time limit applies as well.
    pub timed: bool,
    /// Whether a part of the data is held out for validation.
    pub held_out: bool,
}

/// The chosen model and settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recipe {
    tokenizer: Option<String>,
    size: Size,
    block_size: usize,
    batch_size: usize,
    dropout: f64,
    learning_rate: f64,
    /// Whether the model is to memorize all answers.
    by_heart: bool,
}

/// Whether there are few enough questions to memorize all of them, without holding any out, without dropout, and with the best
/// model chosen by its answers.
pub(crate) fn is_by_heart(glance: &Glance, held_out: bool) -> bool {
    glance.kind == CorpusKind::Qa && glance.examples <= MOST_BY_HEART && !held_out
}

/// Size of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
}

impl Size {
    /// Number of parameters in the blocks.
    fn parameters(self) -> f64 {
        12.0 * self.n_layer as f64 * (self.n_embd as f64).powi(2)
    }

    /// The size with the given settings. A width or a number of heads that is not given is adapted to the other.
    fn with(self, asked: &Asked) -> Self {
        let (n_head, n_embd) = match (asked.n_head, asked.n_embd) {
            (None, None) => (self.n_head, self.n_embd),
            (Some(n_head), None) => (n_head, width_for(n_head, self.n_embd)),
            (None, Some(n_embd)) => (heads_for(n_embd), n_embd),
            (Some(n_head), Some(n_embd)) => (n_head, n_embd),
        };
        Self { n_layer: asked.n_layer.unwrap_or(self.n_layer), n_head, n_embd }
    }
}

/// The width closest to `near` that is divisible by the number of heads, with a head width in multiples of 8 if possible.
fn width_for(n_head: usize, near: usize) -> usize {
    let unit = if 8 * n_head <= near { 8 * n_head } else { 2 * n_head };
    ((near + unit / 2) / unit).max(1) * unit
}

/// A number of heads that divides the width, with heads about as wide as in the closest size, and of even width, as rotary
/// positions need, if possible.
fn heads_for(n_embd: usize) -> usize {
    let Some(like) = SIZES.iter().min_by_key(|size| size.n_embd.abs_diff(n_embd)) else { return 1 };
    let wanted = n_embd as f64 * like.n_head as f64 / like.n_embd as f64;
    let far = |n_head: &usize| (*n_head as f64 / wanted).ln().abs();
    let nearest = |even: bool| {
        let shares =
            |n_head: &usize| n_embd.is_multiple_of(*n_head) && (!even || (n_embd / n_head).is_multiple_of(2));
        (1..=n_embd.min(MOST_HEADS)).filter(shares).min_by(|a, b| far(a).total_cmp(&far(b)))
    };
    nearest(true).or_else(|| nearest(false)).unwrap_or(1)
}

impl Recipe {
    /// Chooses a recipe for data, the given settings, and a compute budget.
    pub fn choose(glance: &Glance, asked: &Asked, flops: f64) -> Self {
        let tokenizer = asked.tokenizer.clone().or_else(|| tokenizer(glance).map(str::to_owned));
        let tokens = TokenCount::of(glance, tokenizer.as_deref());
        let block_size = asked.block_size.unwrap_or_else(|| block_size(glance, &tokens, flops)).max(1);
        let seen = |size: Size| flops / flops_a_token(size, block_size, tokens.vocab_size);
        // Enough training tokens per parameter within the budget, and enough data.
        let suits = |size: &Size| {
            seen(*size) >= SEEN_A_PARAMETER * size.parameters()
                && tokens.count as f64 >= TOKENS_A_PARAMETER * size.parameters()
        };
        // A given width gets no more layers than the closest size.
        let widest = asked.n_embd.unwrap_or(usize::MAX).max(SIZES[0].n_embd);
        let mut sizes = SIZES.iter().rev().filter(|size| size.n_embd <= widest).map(|size| size.with(asked));
        let size = sizes.find(suits).unwrap_or(SIZES[0].with(asked));
        let rows = if glance.kind == CorpusKind::Qa { 32 } else { (1536 / block_size).max(4) };
        let rows = rows.min(most_rows(glance, tokenizer.as_deref(), block_size));
        let batch_size = asked.batch_size.unwrap_or(rows);
        let count = tokens.count.max(1) as f64;
        let in_time = seen(size) / count;
        let passes = match (asked.epochs, asked.max_iters) {
            (Some(epochs), _) => epochs as f64,
            (None, Some(steps)) => {
                steps as f64 * (batch_size * row(glance, &tokens, block_size)) as f64 / count
            }
            (None, None) => in_time,
        };
        let passes = if asked.timed { passes.min(in_time) } else { passes };
        let by_heart = is_by_heart(glance, asked.held_out);
        let dropout = if by_heart { 0.0 } else { dropout(passes) };
        Self { tokenizer, size, block_size, batch_size, dropout, learning_rate: 4e-3, by_heart }
    }

    /// The recipe as sections of a configuration.
    pub fn to_table(&self, glance: &Glance) -> Table {
        let Size { n_layer, n_head, n_embd } = self.size;
        let mut table = toml::toml! {
            [model]
            preset = "shakespeare-cpu"
            initializer_range = 0.05
            [data]
            [train]
            optimizer = "muon"
            muon_ratio = 8.0
            muon_momentum = 0.9
            min_lr = 0.0
            lr_decay = "linear"
            beta2 = 0.99
            weight_decay = 0.1
            [sample]
        };
        let number = |value: usize| Value::Integer(value as i64);
        let mut set = |section: &str, key: &str, value: Value| {
            if let Some(Value::Table(section)) = table.get_mut(section) {
                section.insert(key.to_owned(), value);
            }
        };
        set("model", "n_layer", number(n_layer));
        set("model", "n_head", number(n_head));
        set("model", "n_embd", number(n_embd));
        set("model", "block_size", number(self.block_size));
        set("model", "dropout", Value::Float(self.dropout));
        set("train", "batch_size", number(self.batch_size));
        set("train", "learning_rate", Value::Float(self.learning_rate));
        if let Some(tokenizer) = &self.tokenizer {
            set("data", "tokenizer", tokenizer.as_str().into());
        }
        if self.by_heart {
            set("data", "val_fraction", Value::Float(0.0));
            set("train", "best_by", "answers".into());
        }
        match glance.kind {
            CorpusKind::Text => {
                set("data", "order", "shuffled".into());
                set("sample", "prompt", glance.beginning.as_str().into());
            }
            CorpusKind::Qa => {
                set("data", "max_length", number(self.block_size + 1));
                set("sample", "prompt", format!("{}<sep>", glance.beginning).into());
            }
        }
        table
    }
}

/// Dropout grows with the number of epochs.
fn dropout(passes: f64) -> f64 {
    if passes < 4.0 {
        0.0
    } else if passes < 32.0 {
        0.1
    } else if passes < 80.0 {
        0.2
    } else {
        0.3
    }
}

/// BPE with a vocabulary that grows with the amount of text, or characters for small texts. Chinese needs a larger vocabulary,
/// which starts with thousands of characters.
fn tokenizer(glance: &Glance) -> Option<&'static str> {
    match (glance.tokens, glance.characters, glance.unspaced) {
        (Some(_), ..) => None,
        (None, ..SMALL_TEXT, _) => Some("char"),
        (None, ..2_000_000, false) => Some("bpe:1000"),
        (None, ..) => Some("bpe:4000"),
    }
}

/// A context for nearly all examples, or as long as the compute budget allows.
fn block_size(glance: &Glance, tokens: &TokenCount, flops: f64) -> usize {
    if glance.kind == CorpusKind::Qa {
        let letters = glance.characters.max(1) as f64 / tokens.count.max(1) as f64;
        let long = (glance.long as f64 / letters) as usize + 2;
        return long.next_multiple_of(16).clamp(32, 256);
    }
    // With equal tokens per batch, a short context has more rows: 1.5 % lower loss on Shakespeare and 5 % on 50 KB in five
    // minutes on two cores.
    if flops < 6e13 || (glance.tokens.is_none() && glance.characters < SMALL_TEXT) {
        64
    } else if flops < 6e14 {
        128
    } else {
        256
    }
}

/// Average number of tokens per row of a batch.
fn row(glance: &Glance, tokens: &TokenCount, block_size: usize) -> usize {
    match glance.kind {
        CorpusKind::Qa => block_size.min((tokens.count / glance.examples.max(1)) as usize),
        CorpusKind::Text => block_size,
    }
}

/// Maximum number of rows per batch: the data should fill a few batches.
pub(crate) fn most_rows(glance: &Glance, tokenizer: Option<&str>, block_size: usize) -> usize {
    let rows = match glance.kind {
        CorpusKind::Qa => glance.examples,
        CorpusKind::Text => TokenCount::of(glance, tokenizer).count / block_size.max(1) as u64,
    };
    (rows as usize / 4).max(1)
}

fn flops_a_token(size: Size, block_size: usize, vocab_size: usize) -> f64 {
    let Size { n_layer, n_head, n_embd } = size;
    let config = Config { n_layer, n_head, n_embd, block_size, vocab_size, ..Config::default() };
    Plan::new(&config, 1, block_size).train_flops_per_token as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FLOPs of a minute on two cores.
    const MINUTE: f64 = 6.6e12;

    fn text(characters: u64, distinct: usize) -> Glance {
        Glance {
            kind: CorpusKind::Text,
            characters,
            tokens: None,
            distinct,
            unspaced: false,
            examples: 0,
            long: 0,
            beginning: "It was".to_owned(),
        }
    }

    /// The recipe without given settings.
    fn choose(glance: &Glance, flops: f64) -> Recipe {
        Recipe::choose(glance, &Asked::default(), flops)
    }

    #[test]
    fn more_time_is_for_a_larger_model() {
        let shakespeare = text(1_115_394, 65);
        let widths = [1.0, 5.0, 20.0].map(|minutes| choose(&shakespeare, minutes * MINUTE).size.n_embd);
        assert_eq!(widths, [96, 128, 192]);
    }

    #[test]
    fn little_text_is_for_a_small_model_with_dropout() {
        let recipe = choose(&text(50_000, 60), 20.0 * MINUTE);
        assert!(recipe.size.parameters() < 1e6 && recipe.dropout >= 0.3, "{recipe:?}");
        let tiny = choose(&text(10, 5), MINUTE);
        assert_eq!((tiny.batch_size, tiny.size), (1, SIZES[0]));
    }

    #[test]
    fn more_time_is_for_a_longer_context_unless_the_text_is_small() {
        let contexts =
            |text: &Glance| [1.0, 5.0, 20.0].map(|minutes| choose(text, minutes * MINUTE).block_size);
        assert_eq!(contexts(&text(1_115_394, 65)), [64, 64, 128]);
        assert_eq!(contexts(&text(50_000, 60)), [64, 64, 64]);
        let prepared = Glance { tokens: Some(10_000_000), ..text(0, 4000) };
        assert_eq!(contexts(&prepared), [64, 64, 128]);
    }

    #[test]
    fn the_more_text_the_longer_the_pieces_it_is_cut_into() {
        let tokenizers = [50_000, 1_000_000, 20_000_000].map(|characters| tokenizer(&text(characters, 65)));
        assert_eq!(tokenizers, [Some("char"), Some("bpe:1000"), Some("bpe:4000")]);
    }

    #[test]
    fn few_questions_are_learned_by_heart_unless_some_are_held_out() {
        let questions = |examples| Glance { kind: CorpusKind::Qa, examples, ..text(60 * examples, 65) };
        let recipe = |glance: &Glance, held_out| {
            Recipe::choose(glance, &Asked { held_out, ..Asked::default() }, MINUTE).to_table(glance)
        };
        for (examples, held_out, by_heart) in
            [(1, false, true), (200, false, true), (200, true, false), (14_652, false, false)]
        {
            let table = recipe(&questions(examples), held_out);
            let answers = table["train"].get("best_by").and_then(Value::as_str) == Some("answers");
            let all = table["data"].get("val_fraction").and_then(Value::as_float) == Some(0.0);
            assert_eq!((answers, all), (by_heart, by_heart), "{examples} examples: {table}");
            assert!(!by_heart || table["model"]["dropout"].as_float() == Some(0.0), "{table}");
        }
    }

    #[test]
    fn chinese_has_a_larger_vocabulary() {
        let chinese = Glance { unspaced: true, ..text(850_000, 3400) };
        assert_eq!(tokenizer(&chinese), Some("bpe:4000"));
    }

    #[test]
    fn a_width_that_was_asked_for_is_shared_evenly_by_the_heads() {
        let size = |n_embd| {
            let asked = Asked { n_embd: Some(n_embd), ..Asked::default() };
            Recipe::choose(&text(1_115_394, 65), &asked, 5.0 * MINUTE).size
        };
        assert_eq!((size(256).n_embd, size(256).n_head), (256, 4));
        assert_eq!([100, 320, 1024, 6, 97, 1].map(|n_embd| size(n_embd).n_head), [2, 5, 16, 1, 1, 1]);
        // As many layers as there is time for, but no thin tower.
        assert_eq!([64, 256].map(|n_embd| size(n_embd).n_layer), [2, 2]);
        let asked = Asked { n_embd: Some(256), ..Asked::default() };
        assert_eq!(Recipe::choose(&text(20_000_000, 65), &asked, 600.0 * MINUTE).size, SIZES[4]);
    }

    #[test]
    fn a_number_of_heads_that_was_asked_for_has_a_width_that_they_share_evenly() {
        for n_head in [1, 3, 5, 7, 16, 100, 4096] {
            let asked = Asked { n_head: Some(n_head), ..Asked::default() };
            let size = Recipe::choose(&text(1_115_394, 65), &asked, 5.0 * MINUTE).size;
            assert_eq!((size.n_head, size.n_embd % (2 * n_head)), (n_head, 0), "{size:?}");
        }
        let asked = Asked { n_layer: Some(1), n_head: Some(2), n_embd: Some(10), ..Asked::default() };
        let size = Recipe::choose(&text(1_115_394, 65), &asked, MINUTE).size;
        assert_eq!(size, Size { n_layer: 1, n_head: 2, n_embd: 10 });
    }

    #[test]
    fn dropout_is_for_the_passes_that_the_size_and_the_length_that_were_asked_for_leave() {
        let novel = text(300_000, 65);
        let dropout = |asked: Asked| Recipe::choose(&novel, &asked, 5.0 * MINUTE).dropout;
        assert_eq!(dropout(Asked { n_embd: Some(32), n_layer: Some(1), ..Asked::default() }), 0.3);
        assert_eq!(dropout(Asked { n_embd: Some(768), n_layer: Some(12), ..Asked::default() }), 0.0);
        assert_eq!(dropout(Asked { epochs: Some(2), ..Asked::default() }), 0.0);
        assert_eq!(dropout(Asked { epochs: Some(50), ..Asked::default() }), 0.2);
        assert_eq!(dropout(Asked { max_iters: Some(10), ..Asked::default() }), 0.0);
    }
}
