//! Tokenizers that Hugging Face's library runs: SentencePiece's BPE and Unigram, WordPiece, normalizers and other ways of
//! cutting text.
//!
//! The two tokenizers that MiniGPT makes have code of their own; everything else that a `tokenizer.json` can describe is
//! handed to the `tokenizers` crate. Here it gets what it lacks: the bytes of each token, so that a stream never shows
//! half a character; special tokens that only the caller can mean; characters without a token told instead of dropped;
//! and the file itself, which is written back byte for byte.

mod description;
mod stream;

pub(crate) use stream::PipelineStream;

use crate::bpe::Tokens;
use crate::byte_level;
use crate::error::{Error, Excerpt, FileProblem, LibraryProblem, Quote, Result};
use crate::special::Specials;
use description::{check, has_stage};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::pre_tokenizers::{PreTokenizerWrapper, sequence::Sequence};
use tokenizers::{
    AddedVocabulary, Decoder, DecoderWrapper, Model, NormalizedString, Normalizer, NormalizerWrapper,
    OffsetReferential, OffsetType, PostProcessorWrapper, Token, TokenizerBuilder, TokenizerImpl,
};

/// A vocabulary may have this many times as many ids as tokens.
const SPARSEST: usize = 4;

type Pipeline =
    TokenizerImpl<SharedModel, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// A tokenizer that the `tokenizers` crate runs. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct PipelineTokenizer {
    shared: Arc<Shared>,
    /// Whether a character that has no token, where nothing stands for it either, is left out instead of refused.
    leaves_out: bool,
}

struct Shared {
    /// Special tokens' names in a text mean those tokens.
    special: Pipeline,
    /// They are ordinary text.
    plain: Pipeline,
    /// The same for a text that others come before.
    further: Pipeline,
    specials: Specials,
    /// The bytes of each token inside a text.
    tokens: Tokens,
    /// Tokens that stand for one byte of a character.
    bytes: HashMap<u32, u8>,
    /// The token that stands for text without one.
    unk: Option<u32>,
    /// Whether there is a token for every character, if need be for each of its bytes.
    covers_all: bool,
    /// Whether the model passes over what it has no token for, or only says that there is something.
    drops: bool,
    /// Whether a character has a token, of those that were asked for.
    known: Mutex<HashMap<char, bool>>,
    /// The ids that the post-processor puts before a text.
    before: Vec<u32>,
    /// Whether a space at the very end of a text is not shown.
    drops_last_space: bool,
    file: Vec<u8>,
    /// The `tokenizer_config.json` beside it.
    config: Option<Vec<u8>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("model", self.plain.get_model()).finish_non_exhaustive()
    }
}

/// One model for several pipelines.
#[derive(Debug, Clone)]
struct SharedModel(Arc<ModelWrapper>);

impl Model for SharedModel {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, sequence: &str) -> tokenizers::Result<Vec<Token>> {
        self.0.tokenize(sequence)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.token_to_id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.0.id_to_token(id)
    }

    fn get_vocab(&self) -> HashMap<String, u32> {
        self.0.get_vocab()
    }

    fn get_vocab_size(&self) -> usize {
        self.0.get_vocab_size()
    }

    fn save(&self, folder: &Path, prefix: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        self.0.save(folder, prefix)
    }

    fn get_trainer(&self) -> TrainerWrapper {
        self.0.get_trainer()
    }
}

impl PipelineTokenizer {
    /// A tokenizer from the text of a `tokenizer.json`; `config` is the `tokenizer_config.json` beside it.
    pub(crate) fn read(path: &Path, file: Vec<u8>, config: Option<Vec<u8>>) -> Result<Self> {
        let described: Value = serde_json::from_slice(&file)
            .map_err(|e| malformed(path, FileProblem::Json(Excerpt::new(&e))))?;
        check(&described).map_err(|reason| Error::Unsupported { path: path.to_owned(), reason })?;
        // The crate indexes tables that a file describes: what is wrong there is a panic.
        let shared = catch_unwind(AssertUnwindSafe(|| Shared::new(&described, file, config)));
        let shared = shared.unwrap_or(Err(FileProblem::Library(LibraryProblem::Panicked)));
        let shared = shared.map_err(|problem| malformed(path, problem))?;
        Ok(Self { shared: Arc::new(shared), leaves_out: false })
    }

    pub(crate) fn leaving_out(self) -> Self {
        Self { leaves_out: true, ..self }
    }

    pub(crate) fn vocab_size(&self) -> usize {
        self.shared.tokens.len()
    }

    pub(crate) fn specials(&self) -> &Specials {
        &self.shared.specials
    }

    /// The bytes of a token inside a text.
    pub(crate) fn token(&self, id: u32) -> Option<&[u8]> {
        self.shared.tokens.get(id)
    }

    /// The file that the tokenizer was read from.
    pub(crate) fn file(&self) -> &[u8] {
        &self.shared.file
    }

    /// The `tokenizer_config.json` that lay beside it.
    pub(crate) fn config(&self) -> Option<&[u8]> {
        self.shared.config.as_deref()
    }

    /// The bytes of a token with which a text begins: most decoders leave out the space before the first word.
    pub(crate) fn first_token(&self, id: u32) -> Option<Vec<u8>> {
        let shared = &self.shared;
        let inside = shared.tokens.get(id)?;
        if shared.bytes.contains_key(&id) || shared.shows_bytes() {
            return Some(inside.to_vec());
        }
        // Ids may be left out.
        let Some(token) = shared.plain.id_to_token(id) else { return Some(inside.to_vec()) };
        // A second token, so that the first is not the last as well.
        let ending = shared.decode(&["a", "a"]).and_then(|two| Some(two.strip_prefix('a')?.to_owned()));
        let whole = shared.decode(&[&token, "a"]);
        let first = whole.zip(ending).and_then(|(whole, ending)| Some(whole.strip_suffix(&ending)?.into()));
        Some(first.unwrap_or_else(|| inside.to_vec()))
    }

    /// How many bytes at the end of a text would not be shown if it ended there.
    pub(crate) fn held_at_end(&self, bytes: &[u8]) -> usize {
        usize::from(self.shared.drops_last_space && bytes.ends_with(b" "))
    }

    /// Appends the ids of a text.
    pub(crate) fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut stream = PipelineStream::default();
        stream.push(self, text, ids)?;
        stream.finish(self, ids)
    }

    /// The ids of a prompt: special tokens by their names, behind what the post-processor puts before every text. What it
    /// puts behind one is left out, because the text goes on.
    pub(crate) fn encode_with_special(&self, text: &str) -> Result<Vec<u32>> {
        let shared = &self.shared;
        let ids = self.run(&shared.special, text, 0)?;
        if ids.starts_with(&shared.before) { Ok(ids) } else { Ok([&shared.before[..], &ids].concat()) }
    }

    /// The ids of a text in which a guard makes the name that it lies in ordinary text.
    pub(crate) fn encode_with_guard(&self, text: &str, guard: char) -> Result<Vec<u32>> {
        let shared = &self.shared;
        if !text.contains(guard) {
            return self.run(&shared.special, text, 0);
        }
        let found = shared.special.get_added_vocabulary().extract_and_normalize(NOT_NORMALIZED, text);
        let mut ids = Vec::new();
        let mut characters = 0;
        for (part, _, tokens) in found.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            if let Some(tokens) = tokens {
                ids.extend(tokens.iter().map(|token| token.id));
            } else {
                let part = part.replace(guard, "");
                let pipeline = if characters == 0 { &shared.plain } else { &shared.further };
                ids.extend(self.run(pipeline, &part, characters)?);
            }
            characters += part.chars().filter(|&c| c != guard).count();
        }
        Ok(ids)
    }

    /// The characters of a text that have no token of their own.
    pub(crate) fn unknown(&self, text: &str) -> Vec<char> {
        let shared = &self.shared;
        match shared.unk {
            _ if shared.covers_all => Vec::new(),
            Some(unk) => stream::parts(text).flat_map(|part| shared.stands_for(part, unk)).collect(),
            None if shared.drops => {
                let known = shared.known(text);
                text.chars().filter(|c| !known.contains(c)).collect()
            }
            None => Vec::new(),
        }
    }

    /// The ids of a text before which so many characters came.
    fn run(&self, pipeline: &Pipeline, text: &str, before: usize) -> Result<Vec<u32>> {
        let shared = &self.shared;
        if shared.covers_all || shared.unk.is_some() || !shared.drops {
            return encode(pipeline, text);
        }
        let known = shared.known(text);
        match text.chars().enumerate().find(|(_, c)| !known.contains(c)) {
            None => encode(pipeline, text),
            Some(_) if self.leaves_out => {
                encode(pipeline, &text.chars().filter(|c| known.contains(c)).collect::<String>())
            }
            Some((position, character)) => {
                Err(Error::UnknownCharacter { character, position: before + position })
            }
        }
    }
}

const NOT_NORMALIZED: Option<&NormalizerWrapper> = None;

fn encode(pipeline: &Pipeline, text: &str) -> Result<Vec<u32>> {
    let encoded = catch_unwind(AssertUnwindSafe(|| pipeline.encode_fast(text, false)));
    match encoded {
        Ok(Ok(encoding)) => Ok(encoding.get_ids().to_vec()),
        Ok(Err(error)) => Err(Error::Encode(LibraryProblem::Reported(Excerpt::new(&error)))),
        Err(_) => Err(Error::Encode(LibraryProblem::Panicked)),
    }
}

impl Shared {
    fn new(described: &Value, file: Vec<u8>, config: Option<Vec<u8>>) -> Result<Self, FileProblem> {
        let mut whole = tokenizers::Tokenizer::from_bytes(&file).map_err(reported)?;
        // For batches of equal length; here they would cut texts.
        whole.with_truncation(None).map_err(reported)?.with_padding(None);
        let added = whole.get_added_vocabulary().clone();
        check_added(described, &added)?;
        let specials = specials(described, &added)?;
        let before = before(&whole)?;
        let whole = whole.into_inner();
        let (normalizer, pre_tokenizer) = (whole.get_normalizer(), whole.get_pre_tokenizer());
        let model = SharedModel(Arc::new(whole.get_model().clone()));
        let pipeline = |special: bool, first: bool| -> Result<Pipeline, FileProblem> {
            let mut added = added.clone();
            added.set_encode_special_tokens(!special);
            let pre_tokenizer = pre_tokenizer.cloned();
            let pre_tokenizer = if first { pre_tokenizer } else { pre_tokenizer.map(not_first) };
            let builder = TokenizerBuilder::new().with_model(model.clone());
            let builder = builder.with_normalizer(normalizer.cloned()).with_pre_tokenizer(pre_tokenizer);
            let builder = builder.with_decoder(whole.get_decoder().cloned()).with_added_vocabulary(added);
            builder.build().map_err(reported)
        };
        let mut shared = Self {
            special: pipeline(true, true)?,
            plain: pipeline(false, true)?,
            further: pipeline(false, false)?,
            specials,
            tokens: Tokens::default(),
            bytes: HashMap::new(),
            unk: unk(described, &model),
            covers_all: false,
            drops: matches!(model.0.as_ref(), ModelWrapper::BPE(_) | ModelWrapper::Unigram(_)),
            known: Mutex::default(),
            before,
            drops_last_space: has_stage(described, "decoder", "BPEDecoder"),
            file,
            config,
        };
        shared.list_tokens(described)?;
        Ok(shared)
    }

    /// Fills in the bytes of all tokens.
    fn list_tokens(&mut self, described: &Value) -> Result<(), FileProblem> {
        let mut texts: HashMap<u32, String> = HashMap::new();
        for (token, id) in self.plain.get_vocab(true) {
            texts.entry(id).or_insert(token);
        }
        let largest = texts.keys().copied().max().ok_or(FileProblem::EmptyVocabulary)? as usize;
        if largest >= SPARSEST * texts.len() {
            return Err(FileProblem::SparseIds { largest, tokens: texts.len() });
        }
        let byte_level = self.shows_bytes();
        let falls_back = has_stage(described, "decoder", "ByteFallback");
        let ending = self.decode(&["a", "a"]).and_then(|two| Some(two.strip_prefix('a')?.to_owned()));
        let ending = ending.ok_or(FileProblem::Decoder)?;
        for id in 0..=largest as u32 {
            let Some(token) = texts.get(&id) else {
                self.tokens.push(&[]);
                continue;
            };
            if byte_level {
                let bytes = byte_level::unspell(token).unwrap_or_else(|| token.clone().into_bytes());
                self.tokens.push(&bytes);
            } else if let Some(byte) = fallback_byte(token).filter(|_| falls_back) {
                self.bytes.insert(id, byte);
                self.tokens.push(&[byte]);
            } else {
                let shown = self.plain.id_to_token(id).unwrap_or_default();
                let whole = self.decode(&["a", &shown, "a"]);
                let inside = whole.as_deref().and_then(|text| text.strip_prefix('a')?.strip_suffix(&*ending));
                let inside = inside.ok_or(FileProblem::Decoder)?;
                self.tokens.push(inside.as_bytes());
            }
        }
        let cuts_bytes = ["pre_tokenizer", "normalizer"].map(|part| has_stage(described, part, "ByteLevel"));
        let has = |token: String| self.plain.get_model().token_to_id(&token).is_some();
        let all_bytes = || (0..=u8::MAX).all(|byte| has(byte_level::spell(&[byte])));
        let all_fallbacks = || (0..=u8::MAX).all(|byte| has(format!("<0x{byte:02X}>")));
        let model = &described["model"];
        self.covers_all = (cuts_bytes.contains(&true) && all_bytes())
            || (model["byte_fallback"] == true && all_fallbacks());
        Ok(())
    }

    /// Whether tokens are spelt in letters that stand for bytes.
    fn shows_bytes(&self) -> bool {
        matches!(self.plain.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
    }

    fn decode(&self, tokens: &[&str]) -> Option<String> {
        let tokens: Vec<String> = tokens.iter().map(|&token| token.to_owned()).collect();
        match self.plain.get_decoder() {
            Some(decoder) => decoder.decode(tokens).ok(),
            None => Some(tokens.join(" ")),
        }
    }

    /// The characters for which a token stands that stands for anything.
    fn stands_for(&self, text: &str, unk: u32) -> Vec<char> {
        let Ok(Ok(encoding)) = catch_unwind(AssertUnwindSafe(|| self.further.encode(text, false))) else {
            return Vec::new();
        };
        let spans = encoding.get_ids().iter().zip(encoding.get_offsets()).filter(|(id, _)| **id == unk);
        let characters =
            spans.flat_map(|(_, &(start, end))| text.get(start..end).unwrap_or_default().chars());
        characters.filter(|c| !c.is_whitespace()).collect()
    }

    /// The characters of a text that have a token.
    fn known(&self, text: &str) -> HashSet<char> {
        let characters: HashSet<char> = text.chars().collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        characters.into_iter().filter(|&c| *known.entry(c).or_insert_with(|| self.has_token(c))).collect()
    }

    /// Whether a character has a token of its own, or stands for nothing that could have one.
    fn has_token(&self, character: char) -> bool {
        let mut text = NormalizedString::from(character.to_string());
        if let Some(normalizer) = self.plain.get_normalizer()
            && normalizer.normalize(&mut text).is_err()
        {
            return false;
        }
        if text.get().trim_matches(|c: char| c == '\u{2581}' || c.is_whitespace()).is_empty() {
            return true;
        }
        let ids = encode(&self.further, &character.to_string()).unwrap_or_default();
        // A mark for the space before a text is no token of the character.
        let stands = |id: &u32| self.tokens.get(*id).is_some_and(|bytes| !bytes.trim_ascii().is_empty());
        ids.iter().any(stands) && !ids.iter().any(|&id| Some(id) == self.unk)
    }
}

/// The byte of a token such as `<0xE4>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The same for a text that others come before.
fn not_first(pre_tokenizer: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match pre_tokenizer {
        PreTokenizerWrapper::Metaspace(mut metaspace)
            if metaspace.get_prepend_scheme() == PrependScheme::First =>
        {
            metaspace.set_prepend_scheme(PrependScheme::Never);
            PreTokenizerWrapper::Metaspace(metaspace)
        }
        PreTokenizerWrapper::Sequence(sequence) => {
            let parts: &[PreTokenizerWrapper] = sequence.as_ref();
            PreTokenizerWrapper::Sequence(Sequence::new(parts.iter().cloned().map(not_first).collect()))
        }
        other => other,
    }
}

/// The ids that a post-processor puts before a text.
fn before(whole: &tokenizers::Tokenizer) -> Result<Vec<u32>, FileProblem> {
    let ids = {
        let text = vec![Token::new(u32::MAX, "a".to_owned(), (0, 1))];
        let encoding = tokenizers::Encoding::from_tokens(text, 0);
        let done = whole.post_process(encoding, None, true).map_err(reported)?;
        done.get_ids().to_vec()
    };
    let at = ids.iter().position(|&id| id == u32::MAX).ok_or(FileProblem::PostProcessor)?;
    Ok(ids[..at].to_vec())
}

/// The token that stands for text without one.
fn unk(described: &Value, model: &SharedModel) -> Option<u32> {
    let model_json = &described["model"];
    match model_json["unk_id"].as_u64() {
        Some(id) => u32::try_from(id).ok(),
        None => model.token_to_id(model_json["unk_token"].as_str()?),
    }
}

/// The special tokens, in the order of their ids.
fn specials(described: &Value, added: &AddedVocabulary) -> Result<Specials, FileProblem> {
    let listed = described["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let special = listed.iter().filter(|token| token["special"] == true);
    let names = special.filter_map(|token| token["content"].as_str()).filter(|name| !name.is_empty());
    let mut tokens: Vec<(String, u32)> =
        names.filter_map(|name| Some((name.to_owned(), *added.get_vocab().get(name)?))).collect();
    tokens.sort_by_key(|(_, id)| *id);
    tokens.dedup();
    Specials::new(tokens).map_err(|error| FileProblem::Contents(Box::new(error)))
}

/// The crate numbers added tokens itself: that has to be what the file says.
fn check_added(described: &Value, added: &AddedVocabulary) -> Result<(), FileProblem> {
    for token in described["added_tokens"].as_array().into_iter().flatten() {
        let (Some(content), Some(id)) = (token["content"].as_str(), token["id"].as_u64()) else { continue };
        if let Some(&known) = added.get_vocab().get(content)
            && u64::from(known) != id
        {
            return Err(FileProblem::AddedTokenId { token: Quote::new(content), id, known });
        }
    }
    Ok(())
}

fn malformed(path: &Path, problem: FileProblem) -> Error {
    Error::Malformed { path: path.to_owned(), problem }
}

fn reported(error: impl std::fmt::Display) -> FileProblem {
    FileProblem::Library(LibraryProblem::Reported(Excerpt::new(&error)))
}
