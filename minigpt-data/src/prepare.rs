//! Plain text to a folder of tokens, in two passes and bounded memory.
//!
//! The first pass counts characters (and collects them, for a character vocabulary); the second encodes. As in
//! nanoGPT, the first `int(n * (1 - val_fraction))` of the `n` characters are for training and the rest for
//! validation, each part encoded on its own. Between the files of a folder goes the tokenizer's
//! `<|endoftext|>`, where it has one.

use crate::error::{Error, Result, Unsuitable};
use crate::prepared::{META, PartMeta, PreparedMeta, SourceMeta, TRAIN, VAL};
use crate::record_file::ReadOptions;
use crate::source::Source;
use crate::text_parts::{Counted, TextParts, count_text, train_characters};
use crate::text_source::{TextChunk, TextSource, TextSummary};
use crate::tokenizer_choice::TokenizerChoice;
use crate::tokens::{IdWidth, TokenWriter};
use minigpt_files::OutputFolder;
use std::path::Path;

/// What may be in a folder that is replaced.
const FILES: &[&str] = &[TRAIN, VAL, META, "tokenizer.json", "tokenizer_config.json"];

/// How to prepare.
#[derive(Debug, Clone)]
pub struct PrepareOptions {
    /// The tokenizer.
    pub tokenizer: TokenizerChoice,
    /// The part of the text kept for validation, from 0 to below 1.
    pub val_fraction: f64,
    /// How to read the text.
    pub read: ReadOptions,
    /// Only the first characters of the text.
    pub limit: Option<u64>,
    /// Whether to replace an earlier folder.
    pub force: bool,
}

/// The pass that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrepareStage {
    /// The first pass.
    Counting,
    /// The second.
    Encoding,
}

/// Makes a folder of tokens from text.
///
/// `progress` gets the bytes of text done and the bytes in all, for each stage.
///
/// # Errors
/// Text that is empty or not UTF-8, a character that the vocabulary lacks, an output that is in the way or can't
/// be written. Nothing is left behind then.
pub fn prepare(
    input: &Path,
    out: &Path,
    options: &PrepareOptions,
    progress: &mut dyn FnMut(PrepareStage, u64, u64),
) -> Result<PreparedMeta> {
    let Source::Text(source) = Source::open(input, None, &options.read)? else {
        return Err(Unsuitable::PrepareExamples(input.to_owned()).into());
    };
    let total = source.bytes();
    let folder = OutputFolder::create(out, options.force, FILES)?;
    let mut counting = |done| progress(PrepareStage::Counting, done, total);
    let Counted { summary, tokenizer, .. } =
        count_text(&source, &options.tokenizer, options.limit, &mut counting)?;
    let train = train_characters(&source, &summary, options.val_fraction)?;

    let dtype = IdWidth::for_vocabulary(tokenizer.vocab_size());
    let writer = |name| TokenWriter::create(&folder.path().join(name), dtype);
    let mut parts = TextParts::new(&tokenizer, train, writer(TRAIN)?, writer(VAL)?);
    let mut done = 0;
    let again = source.read(options.limit, &mut |chunk| {
        if let TextChunk::Text(text) = chunk {
            done += text.len() as u64;
            progress(PrepareStage::Encoding, done, total);
        }
        parts.push(chunk)
    })?;
    if again != summary {
        return Err(Error::Changed(source.name().clone()));
    }
    let (train_file, val_file) = parts.finish()?;
    let train = PartMeta { tokens: train_file.finish()?, characters: train };
    let val = PartMeta { tokens: val_file.finish()?, characters: summary.characters - train.characters };
    let meta = PreparedMeta::new(dtype, &tokenizer, train, val, described(&source, &summary));
    tokenizer.save(folder.path())?;
    meta.write(folder.path())?;
    folder.finish()?;
    Ok(meta)
}

fn described(source: &TextSource, summary: &TextSummary) -> SourceMeta {
    SourceMeta {
        name: source.name().to_string(),
        files: summary.files,
        left_out: summary.left_out,
        cleaned: summary.cleaned,
    }
}
