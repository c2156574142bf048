//! Any data by its path, as training takes it: opened, tokenised, and in two parts.
//!
//! What a path may be is told in `source.rs`. Text is split as `prepare` splits it, examples as `split` with the same seed and
//! ratio does; a folder with two parts, and a validation file of its own, are taken as they are.

use crate::bad_lines::BadLines;
use crate::builtin;
use crate::description::{Damage, Description};
use crate::error::{Error, Result, Unsuitable};
use crate::loader::Dataset;
use crate::prepared::Prepared;
use crate::qa_dataset::{LossOn, Padding, QaDataset, QaOptions};
use crate::qa_encoder::{Encoder, ExampleFormat};
use crate::random::{Purpose, below, generator};
use crate::record::Record;
use crate::record_file::{ReadOptions, RecordFile};
use crate::source::Source;
use crate::split::split_order;
use crate::text_parts::{Counted, TextParts, count_text, train_characters};
use crate::text_source::TextSource;
use crate::tokenizer_choice::TokenizerChoice;
use crate::tokens::{Tokens, TokensProblem};
use crate::unknown::Unknown;
use minigpt_tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What data is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorpusKind {
    /// Running text.
    Text,
    /// Question/answer lines.
    Qa,
}

/// How to open data.
#[derive(Debug, Clone)]
pub struct CorpusOptions {
    /// What to read it as, where the path does not say.
    pub kind: Option<CorpusKind>,
    /// The tokenizer. Default: that of a prepared folder, otherwise characters.
    pub tokenizer: Option<TokenizerChoice>,
    /// The part kept for validation; prepared folders have theirs.
    pub val_fraction: f64,
    /// Decides which lines are for validation.
    pub seed: u64,
    /// Validation data. Default: a part of the training data.
    pub val_path: Option<PathBuf>,
    /// How to read it.
    pub read: ReadOptions,
    /// Only so much of it: characters of text, tokens of a prepared folder (of each part), good lines.
    pub limit: Option<u64>,
    /// How question/answer examples are made.
    pub qa: QaOptions,
    /// How they are written as ids, where not as question, separator, answer, separator.
    pub format: Option<ExampleFormat>,
    /// What random rows are like.
    pub random: RandomRows,
}

/// Rows of random ids, as the textbook model learns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomRows {
    /// How many rows, where no limit says so.
    pub rows: u64,
    /// Ids of a row.
    pub length: usize,
    /// Ids are below this.
    pub vocab_size: usize,
}

impl Default for RandomRows {
    fn default() -> Self {
        Self { rows: 1000, length: 20, vocab_size: 1000 }
    }
}

impl Default for CorpusOptions {
    /// Characters, a tenth for validation, and questions of up to 128 tokens.
    fn default() -> Self {
        let qa = QaOptions { max_length: 128, loss_on: LossOn::All, padding: Padding::Longest };
        Self {
            kind: None,
            tokenizer: None,
            val_fraction: 0.1,
            seed: 1337,
            val_path: None,
            read: ReadOptions::default(),
            limit: None,
            random: RandomRows::default(),
            qa,
            format: None,
        }
    }
}

/// Data, ready to be drawn from.
#[derive(Debug)]
pub struct Corpus {
    /// What made the ids; a folder of nanoGPT's does not say.
    pub tokenizer: Option<Tokenizer>,
    /// The two parts.
    pub parts: CorpusParts,
    /// What it was read as.
    pub read_as: Description,
    /// What of its text the tokenizer has no token for.
    pub unknown: Unknown,
    /// What is damaged in it, and in the validation data.
    pub damage: Vec<Damage>,
}

/// The training and the validation part.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of them in a program")]
pub enum CorpusParts {
    /// Of a text; the second may be empty.
    Text {
        /// To learn from.
        train: Tokens,
        /// To judge by.
        val: Tokens,
    },
    /// Of question/answer data.
    Qa {
        /// To learn from.
        train: QaDataset,
        /// To judge by, where any is kept.
        val: Option<QaDataset>,
        /// Lines that were skipped.
        bad: BadLines,
    },
}

impl Corpus {
    /// Data that is there already.
    pub fn of(tokenizer: Option<Tokenizer>, parts: CorpusParts) -> Self {
        Self {
            tokenizer,
            parts,
            read_as: Description::Memory,
            unknown: Unknown::default(),
            damage: Vec::new(),
        }
    }

    /// How many tokens there are, where the data says.
    pub fn vocab_size(&self) -> Option<usize> {
        self.tokenizer.as_ref().map(Tokenizer::vocab_size)
    }

    /// Opens what is at a path.
    ///
    /// # Errors
    /// Data that can't be read.
    pub fn open(path: &Path, options: &CorpusOptions) -> Result<Self> {
        let source = Source::open(path, options.kind, &options.read)?;
        let read_as = source.describe()?;
        let mut damage = Vec::from_iter(source.damage(path)?);
        let val = match &options.val_path {
            Some(path) => {
                let val = Source::open(path, Some(source.kind()), &options.read)?;
                damage.extend(val.damage(path)?);
                Some(val)
            }
            None => None,
        };
        let opened = match (source, val) {
            (Source::Parts { train, val: None }, val) => parts(*train, val, options)?,
            (Source::Parts { train, val: Some(_) }, Some(val)) => parts(*train, Some(val), options)?,
            (Source::Parts { train, val: Some(val) }, None) => parts(*train, Some(*val), options)?,
            (source, val) => parts(source, val, options)?,
        };
        let Opened { tokenizer, parts, unknown } = opened;
        Ok(Self { tokenizer, parts, read_as, unknown, damage })
    }
}

/// Data that was tokenised.
struct Opened {
    tokenizer: Option<Tokenizer>,
    parts: CorpusParts,
    unknown: Unknown,
}

impl Opened {
    fn new(tokenizer: Option<Tokenizer>, parts: CorpusParts) -> Self {
        Self { tokenizer, parts, unknown: Unknown::default() }
    }
}

/// The parts of data that has a validation part of its own, or none yet.
fn parts(train: Source, val: Option<Source>, options: &CorpusOptions) -> Result<Opened> {
    match (train, val) {
        (Source::BuiltIn, None) => built_in(options),
        (Source::Random, None) => Ok(Opened::new(None, random(options)?)),
        (Source::Tokens(folder), None) => prepared(&folder, options),
        (Source::Text(train), None) => text(&train, None, options),
        (Source::Text(train), Some(Source::Text(val))) => text(&train, Some(&val), options),
        (Source::Records(train), None) => lines(&train, None, options),
        (Source::Records(train), Some(Source::Records(val))) => lines(&train, Some(&val), options),
        _ => Err(Unsuitable::DifferentKinds.into()),
    }
}

fn built_in(options: &CorpusOptions) -> Result<Opened> {
    let records = |pairs: Vec<builtin::Pair>| pairs.into_iter().map(Record::from).collect::<Vec<_>>();
    let (train, val) = (records(builtin::train()), records(builtin::held_out()));
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let tokenizer = choice.for_records(train.iter().chain(&val))?;
    let encoder = Encoder::new(&tokenizer, options.format.as_ref())?;
    let dataset = |records: &[Record]| QaDataset::encoded(records, &encoder, options.qa, options.limit);
    let parts =
        CorpusParts::Qa { train: dataset(&train)?, val: Some(dataset(&val)?), bad: BadLines::default() };
    Ok(Opened::new(Some(tokenizer), parts))
}

/// Rows of random ids, which a model can only memorize.
fn random(options: &CorpusOptions) -> Result<CorpusParts> {
    let RandomRows { rows, length, vocab_size } = options.random;
    let mut rng = generator(options.seed, Purpose::Rows, 0, 0);
    let mut row = || (0..length).map(|_| below(&mut rng, vocab_size.max(1) as u64) as u32).collect();
    let rows = (0..options.limit.unwrap_or(rows)).map(|_| row()).collect();
    let train = QaDataset::from_rows(rows, QaOptions { max_length: length, ..options.qa })?;
    Ok(CorpusParts::Qa { train, val: None, bad: BadLines::default() })
}

fn prepared(folder: &Path, options: &CorpusOptions) -> Result<Opened> {
    let Prepared { train, val, tokenizer: own, .. } = Prepared::open(folder)?;
    let given = match &options.tokenizer {
        // There is no text here whose characters could be collected: it means the folder's own.
        None | Some(TokenizerChoice::Char) => None,
        Some(choice) => choice.ready()?,
    };
    if let (Some(own), Some(given)) = (&own, &given)
        && own.fingerprint() != given.fingerprint()
    {
        let problem = TokensProblem::OtherTokenizer;
        return Err(Error::BadTokens { path: folder.to_owned(), problem });
    }
    let parts = CorpusParts::Text { train: train.limited(options.limit), val: val.limited(options.limit) };
    Ok(Opened::new(own.or(given), parts))
}

fn text(source: &TextSource, val: Option<&TextSource>, options: &CorpusOptions) -> Result<Opened> {
    if let Some(val) = val {
        val.check_visible(options.limit)?;
    }
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let Counted { summary, tokenizer, unknown } = count_text(source, choice, options.limit, &mut |_| {})?;
    let val_fraction = if val.is_some() { 0.0 } else { options.val_fraction };
    let train = train_characters(source, &summary, val_fraction)?;
    let mut parts = TextParts::new(&tokenizer, train, Vec::new(), Vec::new());
    source.read(options.limit, &mut |piece| parts.push(piece))?;
    let (train, mut rest) = parts.finish()?;
    if let Some(val) = val {
        let mut parts = TextParts::new(&tokenizer, u64::MAX, Vec::new(), Vec::new());
        val.read(options.limit, &mut |piece| parts.push(piece))?;
        rest = parts.finish()?.0;
    }
    let parts = CorpusParts::Text { train: train.into(), val: rest.into() };
    Ok(Opened { tokenizer: Some(tokenizer), parts, unknown })
}

fn lines(file: &RecordFile, val: Option<&RecordFile>, options: &CorpusOptions) -> Result<Opened> {
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let tokenizer = choice.for_lines(file, options.limit)?;
    let mut unknown = Unknown::default();
    let (set, mut bad) =
        QaDataset::from_lines(file, &tokenizer, options.format.as_ref(), options.qa, options.limit)?;
    if matches!(choice, TokenizerChoice::Ready(_) | TokenizerChoice::File(_)) {
        file.read(options.limit, &mut |_, record| {
            record.turns.iter().for_each(|turn| unknown.add(&tokenizer, &turn.text));
            Ok(())
        })?;
    }
    let (train, val) = match val {
        Some(val) => {
            let (val, val_bad) =
                QaDataset::from_lines(val, &tokenizer, options.format.as_ref(), options.qa, options.limit)?;
            bad.append(val_bad);
            (set, Some(val))
        }
        // Nothing to keep apart: the order of the file is as good as any.
        None if options.val_fraction == 0.0 => (set, None),
        None => {
            let records = set.records();
            let (order, cut) = split_order(records, 1.0 - options.val_fraction, options.seed)?;
            if cut == 0 {
                return Err(Error::NothingLeft {
                    name: file.name().clone(),
                    records,
                    val_fraction: options.val_fraction,
                });
            }
            (set.select(&order[..cut]), Some(set.select(&order[cut..])))
        }
    };
    train.check(&file.name().training_part())?;
    let val = val.filter(|val| val.examples() > 0);
    Ok(Opened { tokenizer: Some(tokenizer), parts: CorpusParts::Qa { train, val, bad }, unknown })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::prepare::{PrepareOptions, prepare};
    use crate::qa_dataset::{LossOn, Padding};
    use crate::split::{SplitOptions, split};
    use std::fs;
    use std::path::PathBuf;

    fn options() -> CorpusOptions {
        CorpusOptions {
            kind: None,
            tokenizer: None,
            val_fraction: 0.2,
            seed: 7,
            qa: QaOptions { max_length: 16, loss_on: LossOn::All, padding: Padding::Longest },
            ..CorpusOptions::default()
        }
    }

    fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn ids(tokens: &Tokens) -> Vec<u32> {
        let mut ids = Vec::new();
        tokens.read(0..tokens.len(), &mut ids).unwrap();
        ids
    }

    #[test]
    fn text_gives_the_same_ids_straight_or_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, "text.txt", &"to be or not to be 是\n".repeat(9));
        for tokenizer in [TokenizerChoice::Char, TokenizerChoice::Gpt2] {
            let out = dir.path().join("prepared");
            let how = PrepareOptions {
                tokenizer: tokenizer.clone(),
                val_fraction: 0.2,
                read: ReadOptions::default(),
                limit: None,
                force: true,
            };
            prepare(&path, &out, &how, &mut |_, _, _| {}).unwrap();
            let options = CorpusOptions { tokenizer: Some(tokenizer), ..options() };
            let [straight, prepared] = [&path, &out].map(|path| Corpus::open(path, &options).unwrap());
            let name = |corpus: &Corpus| corpus.tokenizer.as_ref().unwrap().fingerprint();
            assert_eq!(name(&straight), name(&prepared));
            let parts = |corpus: &Corpus| match &corpus.parts {
                CorpusParts::Text { train, val } => (ids(train), ids(val)),
                CorpusParts::Qa { .. } => panic!("this is text"),
            };
            assert_eq!(parts(&straight), parts(&prepared));
        }
    }

    #[test]
    fn the_built_in_set_brings_its_own_validation() {
        let corpus = Corpus::open(Path::new("builtin"), &options()).unwrap();
        let CorpusParts::Qa { train, val, .. } = corpus.parts else { panic!("these are questions") };
        assert_eq!(train.examples() as usize, builtin::train().len());
        assert_eq!(val.unwrap().examples() as usize, builtin::held_out().len());
        assert_eq!(corpus.tokenizer.unwrap().special_id("<sep>"), Some(2));
    }

    #[test]
    fn a_folder_of_nanogpt_is_taken_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("train.bin"), [1, 0, 2, 0, 0, 196]).unwrap();
        fs::write(dir.path().join("val.bin"), [3, 0]).unwrap();
        let corpus = Corpus::open(dir.path(), &options()).unwrap();
        let CorpusParts::Text { train, val } = &corpus.parts else { panic!("this is text") };
        assert_eq!((ids(train), ids(val)), (vec![1, 2, 50176], vec![3]));
        assert!(corpus.tokenizer.is_none());
        let gpt2 = CorpusOptions { tokenizer: Some(TokenizerChoice::Gpt2), limit: Some(2), ..options() };
        let corpus = Corpus::open(dir.path(), &gpt2).unwrap();
        assert_eq!(corpus.tokenizer.unwrap().vocab_size(), 50257);
        let CorpusParts::Text { train, .. } = &corpus.parts else { panic!("this is text") };
        assert_eq!(ids(train), [1, 2]);
    }

    #[test]
    fn lines_are_split_as_the_split_command_splits_them() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..50)
            .map(|i| match i % 7 {
                0 => "bad line\n".to_owned(),
                3 => "\n".to_owned(),
                _ => format!("{{\"question\":\"q{i}\",\"answer\":\"a{i}\"}}\n"),
            })
            .collect();
        let path = file(&dir, "qa.jsonl", &text);
        let out = dir.path().join("out");
        let how = SplitOptions {
            kind: None,
            ratio: 0.8,
            seed: 7,
            limit: None,
            out: Some(out.clone()),
            force: false,
            read: ReadOptions::default(),
        };
        split(&path, &how, &mut |_, _| {}).unwrap();
        let corpus = Corpus::open(&path, &options()).unwrap();
        let CorpusParts::Qa { train, val, bad } = corpus.parts else { panic!("these are lines") };
        assert_eq!((bad.total, bad.blank), (8, 7));
        let tokenizer = corpus.tokenizer.unwrap();
        let all =
            |set: &QaDataset| -> Batch { set.collate(&(0..set.examples()).collect::<Vec<u64>>()).unwrap() };
        for (part, name) in [(train, "train.jsonl"), (val.unwrap(), "val.jsonl")] {
            let file = RecordFile::open(&out.join(name), &ReadOptions::default()).unwrap();
            let apart = QaDataset::from_lines(&file, &tokenizer, None, options().qa, None).unwrap().0;
            assert_eq!(all(&part), all(&apart));
        }
    }
}
