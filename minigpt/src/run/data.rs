//! The data of a run: opened, split, in the format that the model learns, and old questions to rehearse next to new ones.

use super::{BaseFormat, RunError, RunNote, SETTINGS};
use crate::error::Result;
use crate::model_folder::tokenizer_mismatch;
use crate::run_config::{DataConfig, ExampleStyle, RunConfig};
use crate::settings::{Assignment, SettingError};
use minigpt_data::{
    BadLines, Corpus, CorpusKind, CorpusOptions, CorpusParts, LossOn, Padding, QaDataset, QaOptions,
    RandomRows, ReadOptions, Source, TokenizerChoice,
};
use minigpt_formats::{load_config, nanogpt};
use minigpt_model::Config;
use minigpt_settings::Section;
use minigpt_tokenizer::{Tokenizer, UNK};
use minigpt_train::TrainingData;
use std::path::{Path, PathBuf};

/// How often a few new examples are repeated, so that many different old ones come between them.
const REPEATS: u64 = 100;

/// The data of a run, ready to train on.
pub(super) struct OpenedData {
    pub data: TrainingData,
    pub bad_lines: BadLines,
    pub kind: CorpusKind,
    pub notes: Vec<RunNote>,
}

/// Opens the data of a run. A model that is fine-tuned decides the tokenizer and the context.
pub(super) fn open_run_data(
    config: &RunConfig,
    base: Option<&Path>,
    format: &BaseFormat,
    context: Option<usize>,
) -> Result<OpenedData> {
    let block_size = match (context, base) {
        (Some(context), _) => context,
        (None, Some(base)) => load_config(base)?.block_size,
        (None, None) => config.model.block_size,
    };
    let mut opened = open_data(config, format, block_size)?;
    if let (Some(base), Some(tokenizer)) = (base, &format.tokenizer) {
        let mismatch = tokenizer_mismatch(base, tokenizer, &load_config(base)?);
        opened.notes.extend(mismatch.map(RunNote::TokenizerMismatch));
    }
    Ok(opened)
}

/// How questions and answers are cut, and which of their tokens count for the loss.
pub(super) struct Examples {
    pub max_length: usize,
    pub loss_on: LossOn,
}

/// Opens the data of a configuration. A model that is fine-tuned decides the tokenizer and the format of examples.
pub(super) fn open_corpus(
    config: &RunConfig,
    format: &BaseFormat,
    block_size: usize,
    Examples { max_length, loss_on }: Examples,
) -> Result<(Corpus, Vec<RunNote>)> {
    let data = &config.data;
    data.check_ranges().map_err(|error| SettingError::NotAllowed {
        name: format!("{}.{}", DataConfig::NAME, error.key),
        value: error.value,
        allowed: error.allowed,
    })?;
    let path = Path::new(&data.path);
    let mut notes = Vec::new();
    let choice = match (&format.tokenizer, tokenizer_beside(path)?, &data.tokenizer) {
        (Some(own), Some(theirs), _) if own.fingerprint() != theirs.fingerprint() => {
            return Err(RunError::OtherCharacters(data.path.clone()).into());
        }
        // Characters that the model has no token for are left out, with a note.
        (Some(tokenizer), ..) => Some(TokenizerChoice::Ready(tokenizer.clone().leaving_out())),
        // The data is tokens already, so a tokenizer for text does not apply.
        (None, Some(theirs), name) => {
            if let Some(name) = name.as_ref().filter(|name| *name != "char") {
                notes.push(RunNote::TokenizerIgnored { name: name.clone() });
            }
            Some(TokenizerChoice::Ready(theirs))
        }
        (None, None, Some(name)) => Some(name.parse().unwrap_or(TokenizerChoice::Char)),
        (None, None, None) => None,
    };
    let options = CorpusOptions {
        kind: data.kind,
        tokenizer: choice,
        val_fraction: data.val_fraction,
        seed: config.train.seed,
        val_path: data.val_path.as_ref().map(PathBuf::from),
        read: ReadOptions { encoding: data.encoding, columns: data.columns.clone() },
        random: RandomRows {
            length: data.max_length.min(block_size + 1),
            vocab_size: config.model.vocab_size,
            ..RandomRows::default()
        },
        limit: data.limit,
        qa: QaOptions { max_length, loss_on, padding: Padding::Longest },
        format: format.of_examples(config)?,
    };
    let corpus = Corpus::open(path, &options)?;
    notes.extend(corpus.damage.iter().cloned().map(RunNote::Damage));
    Ok((corpus, notes))
}

/// The same, ready to train on.
pub(super) fn open_data(config: &RunConfig, format: &BaseFormat, block_size: usize) -> Result<OpenedData> {
    let data = &config.data;
    // The last token of a sequence is only a target, so a context of T takes T + 1 tokens.
    let examples = Examples { max_length: data.max_length.min(block_size + 1), loss_on: data.loss_on };
    let (mut corpus, mut notes) = open_corpus(config, format, block_size, examples)?;
    let kind = match &corpus.parts {
        CorpusParts::Qa { .. } => CorpusKind::Qa,
        CorpusParts::Text { .. } => CorpusKind::Text,
    };
    notes.insert(0, RunNote::ReadAs { path: data.path.clone(), read_as: corpus.read_as.clone() });
    if let Some(tokenizer) = &corpus.tokenizer {
        notes.extend(corpus.unknown.note(tokenizer).map(RunNote::UnknownCharacters));
        if matches!(tokenizer, Tokenizer::Char(_)) && tokenizer.special_id(UNK).is_none() {
            notes.push(RunNote::CharacterVocabulary { size: tokenizer.vocab_size() });
        }
    }
    if let (Some(path), CorpusParts::Qa { train, .. }) = (rehearsed(data), &mut corpus.parts) {
        let format = BaseFormat { tokenizer: corpus.tokenizer.clone(), ..format.clone() };
        let rehearsal = rehearsal(config, path, &format, block_size, 0, &mut notes)?;
        *train = train.with_rehearsal(&rehearsal, REPEATS)?;
        notes.push(RunNote::Rehearsal { path: path.to_owned() });
    }
    let bad_lines = match &corpus.parts {
        CorpusParts::Qa { bad, .. } => bad.clone(),
        CorpusParts::Text { .. } => BadLines::default(),
    };
    let model = Config { block_size, ..config.model.clone() };
    let mut data = TrainingData::new(corpus, &model, &config.train, data.order)?;
    if let Some(template) = &format.template {
        let is_own = format.of_examples(config)?.is_some();
        if kind == CorpusKind::Text || is_own {
            data.template = Some(template.clone());
        }
        let token = |id: &u32| format.tokenizer.as_ref().and_then(|tokenizer| tokenizer.token(*id));
        let end = format.ends.first().and_then(token).unwrap_or_default();
        if kind == CorpusKind::Qa && is_own {
            notes.push(RunNote::OwnTemplate { end });
        } else if kind == CorpusKind::Qa && config.data.format == Some(ExampleStyle::Questions) {
            let end = data.template.as_ref().and_then(|new| new.token("eos_token")).unwrap_or_default();
            notes.push(RunNote::TemplateReplaced { end: end.to_owned() });
        }
    }
    Ok(OpenedData { data, bad_lines, kind, notes })
}

/// The path of the questions to rehearse, if any.
fn rehearsed(data: &DataConfig) -> Option<&str> {
    data.rehearse_path.as_deref().filter(|path| !path.is_empty())
}

/// The questions and answers of a run, including those that it rehearsed itself, or of a file, to train on next to new ones.
fn rehearsal(
    config: &RunConfig,
    path: &str,
    format: &BaseFormat,
    block_size: usize,
    depth: usize,
    notes: &mut Vec<RunNote>,
) -> Result<QaDataset> {
    /// Maximum length of a chain of runs, each fine-tuned from the one before.
    const DEEPEST: usize = 16;
    let settings = Path::new(path).join(SETTINGS);
    let mut old = if settings.is_file() {
        RunConfig::read(&settings, &[])?
    } else {
        let DataConfig { max_length, loss_on, .. } = config.data;
        let path = path.to_owned();
        let data = DataConfig { path, val_fraction: 0.0, max_length, loss_on, ..DataConfig::default() };
        RunConfig { data, ..config.clone() }
    };
    // Old examples are written in the format of the new ones.
    old.data.format = config.data.format;
    let max_length = old.data.max_length.min(block_size + 1);
    let examples = Examples { max_length, loss_on: old.data.loss_on };
    let (corpus, _) = open_corpus(&old, format, block_size, examples)?;
    notes.extend(corpus.damage.into_iter().map(RunNote::Damage));
    let CorpusParts::Qa { mut train, .. } = corpus.parts else {
        return Err(RunError::NothingToRehearse(path.to_owned()).into());
    };
    if let Some(older) = rehearsed(&old.data).filter(|_| depth < DEEPEST) {
        train.append(rehearsal(config, older, format, block_size, depth + 1, notes)?);
    }
    Ok(train)
}

/// nanoGPT's `meta.pkl` next to tokens that have no tokenizer of their own.
pub fn tokenizer_beside(path: &Path) -> Result<Option<Tokenizer>> {
    let is_file = path.extension().is_some_and(|ending| ending == "bin");
    if !path.is_dir() && !is_file {
        return Ok(None);
    }
    let Ok(Source::Tokens(folder)) = Source::open(path, None, &ReadOptions::default()) else {
        return Ok(None);
    };
    let (vocabulary, own) = (folder.join("meta.pkl"), folder.join("tokenizer.json"));
    if vocabulary.is_file() && !own.is_file() { Ok(Some(nanogpt::read_meta(&vocabulary)?)) } else { Ok(None) }
}

/// Rejects settings for questions and answers if the data is running text.
pub(super) fn check_settings_apply(
    config: &RunConfig,
    changes: &[Assignment],
    kind: CorpusKind,
) -> Result<()> {
    if kind == CorpusKind::Qa {
        return Ok(());
    }
    let (data, default) = (&config.data, DataConfig::default());
    let of_examples = [
        ("data.max_length", data.max_length != default.max_length),
        ("data.loss_on", data.loss_on != default.loss_on),
        ("data.format", data.format.is_some()),
        ("data.rehearse_path", rehearsed(data).is_some()),
    ];
    let named = |name: &str| changes.iter().any(|change| change.name() == name);
    match of_examples.into_iter().find(|(name, set)| *set || named(name)) {
        None => Ok(()),
        Some((setting, _)) => Err(RunError::NotForText { setting, path: data.path.clone() }.into()),
    }
}
