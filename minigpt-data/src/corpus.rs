//! Any data by its path, as training takes it: opened, tokenised, and split in two.
//!
//! | path | read as |
//! |---|---|
//! | `builtin` | the built-in questions and answers; those held out are for validation |
//! | a folder with `train.bin` | prepared tokens, memory-mapped |
//! | a file ending in `.jsonl`, `.ndjson` or `.json` | question/answer lines |
//! | any other file or folder, `-` | plain text, tokenised in memory |
//!
//! Text is split as `prepare` splits it; lines as `split` with the same seed and ratio does.

use crate::bad_lines::BadLines;
use crate::builtin;
use crate::error::{Error, Result};
use crate::jsonl::JsonlFile;
use crate::loader::Dataset;
use crate::prepared::Prepared;
use crate::qa_dataset::{LossOn, Padding, QaDataset, QaOptions};
use crate::qa_encoder::QaEncoder;
use crate::record::Record;
use crate::split::{Selection, count_lines};
use crate::text_parts::{TextParts, count_text, train_characters};
use crate::text_source::TextSource;
use crate::tokenizer_choice::TokenizerChoice;
use crate::tokens::Tokens;
use minigpt_tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What data is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorpusKind {
    /// Running text.
    Text,
    /// Question/answer lines.
    Qa,
}

impl CorpusKind {
    /// What a path looks like.
    pub fn of(path: &Path) -> Self {
        let lines = |ending: &std::ffi::OsStr| {
            ["jsonl", "ndjson", "json"].iter().any(|name| ending.eq_ignore_ascii_case(name))
        };
        if !path.is_dir() && path.extension().is_some_and(lines) { CorpusKind::Qa } else { CorpusKind::Text }
    }
}

/// How to open data.
#[derive(Debug, Clone)]
pub struct CorpusOptions {
    /// What to read it as, where the path does not say.
    pub kind: Option<CorpusKind>,
    /// What makes the ids: by default what a prepared folder holds, otherwise characters.
    pub tokenizer: Option<TokenizerChoice>,
    /// The part kept for validation; prepared folders have theirs.
    pub val_fraction: f64,
    /// Decides which lines are for validation.
    pub seed: u64,
    /// Only so much of it: characters of text, tokens of a prepared folder (of each part), good lines.
    pub limit: Option<u64>,
    /// How question/answer examples are made.
    pub qa: QaOptions,
}

impl Default for CorpusOptions {
    /// Characters, a tenth for validation, and questions of up to 128 tokens.
    fn default() -> Self {
        let qa = QaOptions { max_length: 128, loss_on: LossOn::All, padding: Padding::Longest };
        Self { kind: None, tokenizer: None, val_fraction: 0.1, seed: 1337, limit: None, qa }
    }
}

/// Data, ready to be drawn from.
#[derive(Debug)]
pub struct Corpus {
    /// What made the ids; a folder of nanoGPT's does not say.
    pub tokenizer: Option<Tokenizer>,
    /// The two parts.
    pub parts: CorpusParts,
}

/// The training and the validation part.
#[derive(Debug)]
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
    /// How many tokens there are, where the data says.
    pub fn vocab_size(&self) -> Option<usize> {
        self.tokenizer.as_ref().map(Tokenizer::vocab_size)
    }

    /// Opens what is at a path.
    ///
    /// # Errors
    /// Whatever is wrong with the data.
    pub fn open(path: &Path, options: &CorpusOptions) -> Result<Self> {
        if path == Path::new(builtin::NAME) {
            return match options.kind {
                Some(CorpusKind::Text) => {
                    Err(Error::BadOption("the built-in set is questions and answers, not text".into()))
                }
                _ => built_in(options),
            };
        }
        let kind = options.kind.unwrap_or_else(|| CorpusKind::of(path));
        match kind {
            CorpusKind::Text if Prepared::is_at(path) => prepared(path, options),
            CorpusKind::Text => text(path, options),
            CorpusKind::Qa => lines(path, options),
        }
    }
}

fn built_in(options: &CorpusOptions) -> Result<Corpus> {
    let records = |pairs: Vec<builtin::Pair>| pairs.into_iter().map(Record::from).collect::<Vec<_>>();
    let (train, val) = (records(builtin::train()), records(builtin::held_out()));
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let tokenizer = choice.for_records(train.iter().chain(&val))?;
    let dataset =
        |records: &[Record]| QaDataset::from_records(records, &tokenizer, options.qa, options.limit);
    let parts =
        CorpusParts::Qa { train: dataset(&train)?, val: Some(dataset(&val)?), bad: BadLines::default() };
    Ok(Corpus { tokenizer: Some(tokenizer), parts })
}

fn prepared(folder: &Path, options: &CorpusOptions) -> Result<Corpus> {
    let Prepared { train, val, tokenizer: own, .. } = Prepared::open(folder)?;
    let given = match &options.tokenizer {
        // There is no text here whose characters could be collected: it means the folder's own.
        None | Some(TokenizerChoice::Char) => None,
        Some(choice) => choice.ready()?,
    };
    if let (Some(own), Some(given)) = (&own, &given)
        && own.fingerprint() != given.fingerprint()
    {
        let problem = "its tokens were made with another tokenizer than the one given".to_owned();
        return Err(Error::BadTokens { path: folder.to_owned(), problem });
    }
    let parts = CorpusParts::Text { train: train.limited(options.limit), val: val.limited(options.limit) };
    Ok(Corpus { tokenizer: own.or(given), parts })
}

fn text(path: &Path, options: &CorpusOptions) -> Result<Corpus> {
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let source = TextSource::open(path)?;
    let (summary, tokenizer) = count_text(&source, choice, options.limit, &mut |_| {})?;
    let train = train_characters(&source, &summary, options.val_fraction)?;
    let mut parts = TextParts::new(&tokenizer, train, Vec::new(), Vec::new());
    source.read(options.limit, &mut |piece| parts.push(piece))?;
    let (train, val) = parts.finish()?;
    let parts = CorpusParts::Text { train: train.into(), val: val.into() };
    Ok(Corpus { tokenizer: Some(tokenizer), parts })
}

fn lines(path: &Path, options: &CorpusOptions) -> Result<Corpus> {
    let file = JsonlFile::open(path)?;
    let choice = options.tokenizer.as_ref().unwrap_or(&TokenizerChoice::Char);
    let tokenizer = choice.for_lines(&file, options.limit)?;
    let encoder = QaEncoder::new(&tokenizer)?;
    let mut train = QaDataset::new(&tokenizer, options.qa)?;
    let mut val = QaDataset::new(&tokenizer, options.qa)?;
    let count = count_lines(file.input())?;
    let mut selection = Selection::new(count, 1.0 - options.val_fraction, options.seed)?;
    let mut chosen = (0, false);
    let summary = file.read(options.limit, &mut |line, record| {
        // Every line is chosen for, good or not, as `split` does.
        while chosen.0 < line {
            chosen = (chosen.0 + 1, selection.choose());
        }
        let part = if chosen.1 { &mut train } else { &mut val };
        part.push(&encoder, &record).map_err(|e| Error::in_line(file.name(), line, e))
    })?;
    train.check(&format!("the training part of {}", file.name()))?;
    let val = (val.examples() > 0).then_some(val);
    Ok(Corpus { parts: CorpusParts::Qa { train, val, bad: summary.bad }, tokenizer: Some(tokenizer) })
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
            limit: None,
            qa: QaOptions { max_length: 16, loss_on: LossOn::All, padding: Padding::Longest },
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
            let how =
                PrepareOptions { tokenizer: tokenizer.clone(), val_fraction: 0.2, limit: None, force: true };
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
        let how = SplitOptions { ratio: 0.8, seed: 7, limit: None, force: false };
        split(&path, &out, &how, &mut |_, _| {}).unwrap();
        let corpus = Corpus::open(&path, &options()).unwrap();
        let CorpusParts::Qa { train, val, bad } = corpus.parts else { panic!("these are lines") };
        assert_eq!((bad.total, bad.blank), (8, 7));
        let tokenizer = corpus.tokenizer.unwrap();
        let all =
            |set: &QaDataset| -> Batch { set.collate(&(0..set.examples()).collect::<Vec<u64>>()).unwrap() };
        for (part, name) in [(train, "train.jsonl"), (val.unwrap(), "val.jsonl")] {
            let file = JsonlFile::open(&out.join(name)).unwrap();
            let apart = QaDataset::from_lines(&file, &tokenizer, options().qa, None).unwrap().0;
            assert_eq!(all(&part), all(&apart));
        }
    }
}
