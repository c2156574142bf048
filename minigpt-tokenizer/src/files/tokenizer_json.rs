//! Reading Hugging Face's `tokenizer.json`.
//!
//! The format describes any pipeline; two of them are ours: byte-level BPE as GPT-2 has it, and a `WordLevel` model
//! over single characters. A tokenizer that is nearly one of them would give ids that are silently wrong, so
//! everything else is run as the file describes it ([`PipelineTokenizer`]).

use super::shapes::{Merge, Vocab, Words};
use super::unique_map::UniqueMap;
use super::{ids, parse, read, spelt, vocabulary};
use crate::bpe::BpeTokenizer;
use crate::characters::{CharTokenizer, UNK};
use crate::error::{Error, FileProblem, Quote, Result};
use crate::pipeline::PipelineTokenizer;
use crate::tokenizer::Tokenizer;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use minigpt_files::is_there;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// Pattern that splits a text into characters, including line ends.
pub(super) const EVERY_CHARACTER: &str = r"[\s\S]";
/// GPT-2's pattern, for files that spell it out.
const GPT2_PATTERN: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

#[derive(Deserialize)]
struct TokenizerJson {
    added_tokens: Option<Vec<AddedToken>>,
    normalizer: Option<Component>,
    pre_tokenizer: Option<Component>,
    post_processor: Option<Component>,
    decoder: Option<Component>,
    model: Option<Model>,
    word2id: Option<UniqueMap<u32>>,
    id2word: Option<Words>,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

/// A stage of the pipeline, with those settings of any kind that matter here.
#[derive(Deserialize)]
struct Component {
    #[serde(rename = "type")]
    kind: String,
    add_prefix_space: Option<bool>,
    use_regex: Option<bool>,
    pattern: Option<Pattern>,
    behavior: Option<String>,
    invert: Option<bool>,
    pretokenizers: Option<Vec<Component>>,
    processors: Option<Vec<Component>>,
    /// The template for a single text.
    single: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct Pattern {
    #[serde(rename = "Regex")]
    regex: Option<String>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    unk_token: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: Option<Vocab>,
    merges: Option<Vec<Merge>>,
}

/// Opens a `tokenizer.json`, or a vocabulary file, which its keys tell apart.
pub(super) fn open(path: &Path) -> Result<Tokenizer> {
    let bytes = read(path)?;
    let mut file: TokenizerJson = parse(path, &bytes)?;
    if let Some(model) = file.model.take() {
        match (Reader { path, file }).tokenizer(model) {
            Ok(tokenizer) => Ok(tokenizer),
            Err(Rejected::NotOurs) => pipeline(path, bytes),
            Err(Rejected::Invalid(error)) => Err(error),
        }
    } else if file.word2id.is_some() || file.id2word.is_some() {
        vocabulary::from_maps(path, file.word2id, file.id2word).map(Tokenizer::Char)
    } else {
        Err(Error::Malformed { path: path.to_owned(), problem: FileProblem::Unrecognized })
    }
}

/// A tokenizer that is not one of ours.
fn pipeline(path: &Path, bytes: Vec<u8>) -> Result<Tokenizer> {
    let config = path.with_file_name("tokenizer_config.json");
    let config = is_there(&config)?.then(|| read(&config)).transpose()?;
    PipelineTokenizer::read(path, bytes, config).map(Tokenizer::Pipeline)
}

/// Why a file is not read as one of our two tokenizers.
enum Rejected {
    /// It describes another one.
    NotOurs,
    /// It describes no tokenizer at all.
    Invalid(Error),
}

impl From<Error> for Rejected {
    fn from(error: Error) -> Self {
        Self::Invalid(error)
    }
}

/// All of the file but the model.
struct Reader<'a> {
    path: &'a Path,
    file: TokenizerJson,
}

impl Reader<'_> {
    fn tokenizer(self, mut model: Model) -> Result<Tokenizer, Rejected> {
        let vocab = model.vocab.take();
        let kind = match (&model.kind, &model.merges, &vocab) {
            (Some(kind), _, _) => kind.as_str(),
            (None, Some(_), _) => "BPE",
            (None, None, Some(Vocab::List)) => "Unigram",
            _ => return Err(Rejected::NotOurs),
        };
        match (kind, vocab) {
            ("BPE", Some(Vocab::Ids(vocab))) => self.bpe(model, vocab).map(Tokenizer::Bpe),
            ("WordLevel", Some(Vocab::Ids(vocab))) => self.characters(&model, vocab).map(Tokenizer::Char),
            ("BPE" | "WordLevel", _) => Err(self.malformed(FileProblem::NoVocabulary).into()),
            _ => Err(Rejected::NotOurs),
        }
    }

    fn bpe(&self, model: Model, vocab: Vec<(String, u32)>) -> Result<BpeTokenizer, Rejected> {
        if model.has_special_settings() || !self.has_pipeline(is_gpt2, "ByteLevel") {
            return Err(Rejected::NotOurs);
        }
        let (tokens, specials) = self.with_added(vocab)?;
        let merges: Vec<_> = model.merges.unwrap_or_default().into_iter().map(|Merge(a, b)| (a, b)).collect();
        Ok(spelt::bpe(self.path, &tokens, &merges, &specials)?)
    }

    fn characters(&self, model: &Model, vocab: Vec<(String, u32)>) -> Result<CharTokenizer, Rejected> {
        let is_our_unk = model.unk_token.as_deref().is_none_or(|unk| unk == UNK);
        if !is_our_unk || !self.has_pipeline(is_every_character, "Fuse") {
            return Err(Rejected::NotOurs);
        }
        let (tokens, specials) = self.with_added(vocab)?;
        let tokenizer = CharTokenizer::from_tokens(tokens, &specials);
        Ok(tokenizer.map_err(|error| self.malformed(FileProblem::Contents(Box::new(error))))?)
    }

    /// Whether the stages around the model are those of one of our tokenizers.
    fn has_pipeline(&self, pre_tokenizer: impl Fn(&Component) -> bool, decoder: &str) -> bool {
        let file = &self.file;
        file.normalizer.is_none()
            && file.pre_tokenizer.as_ref().is_some_and(pre_tokenizer)
            && file.post_processor.as_ref().is_none_or(Component::changes_no_ids)
            && file.decoder.as_ref().is_none_or(|found| found.kind == decoder)
    }

    /// Puts the added tokens, which are in the vocabulary or follow it, and the others in the order of their ids.
    fn with_added(&self, mut vocab: Vec<(String, u32)>) -> Result<(Vec<String>, Vec<String>), Rejected> {
        let added = self.file.added_tokens.as_deref().unwrap_or_default();
        let known: HashMap<&str, u32, RandomState> =
            vocab.iter().map(|(token, id)| (token.as_str(), *id)).collect();
        let mut further = Vec::new();
        for AddedToken { id, content, single_word, lstrip, rstrip } in added {
            if *single_word || *lstrip || *rstrip {
                return Err(Rejected::NotOurs);
            }
            match known.get(content.as_str()) {
                None => further.push((content.clone(), *id)),
                Some(known) if known == id => {}
                Some(&known) => {
                    let (token, id) = (Quote::new(content), u64::from(*id));
                    return Err(self.malformed(FileProblem::AddedTokenId { token, id, known }).into());
                }
            }
        }
        drop(known);
        vocab.append(&mut further);
        Ok((ids::in_order(self.path, vocab)?, added.iter().map(|token| token.content.clone()).collect()))
    }

    fn malformed(&self, problem: FileProblem) -> Error {
        Error::Malformed { path: self.path.to_owned(), problem }
    }
}

impl Model {
    /// Whether settings are on that GPT-2's BPE does not have.
    fn has_special_settings(&self) -> bool {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        self.dropout.is_some_and(|dropout| dropout != 0.0)
            || is_set(&self.continuing_subword_prefix)
            || is_set(&self.end_of_word_suffix)
            || self.byte_fallback
            || self.ignore_merges
    }
}

impl Component {
    /// Whether a post-processor leaves the ids of a text as they are: it only looks at offsets, or its template is the text
    /// alone.
    fn changes_no_ids(&self) -> bool {
        match self.kind.as_str() {
            "ByteLevel" => true,
            "TemplateProcessing" => {
                matches!(self.single.as_deref(), Some([one]) if one["Sequence"]["id"] == "A")
            }
            "Sequence" => self.processors.iter().flatten().all(Self::changes_no_ids),
            _ => false,
        }
    }

    fn is_split(&self, regex: &str) -> bool {
        self.kind == "Split"
            && self.pattern.as_ref().is_some_and(|pattern| pattern.regex.as_deref() == Some(regex))
            && self.behavior.as_deref() == Some("Isolated")
            && self.invert != Some(true)
    }
}

/// `ByteLevel` with its own pattern, or the same in two steps.
fn is_gpt2(found: &Component) -> bool {
    let byte_level = |found: &Component, regex: bool| {
        found.kind == "ByteLevel"
            && found.add_prefix_space == Some(false)
            && found.use_regex.unwrap_or(true) == regex
    };
    match (found.kind.as_str(), found.pretokenizers.as_deref()) {
        ("Sequence", Some([one])) => byte_level(one, true),
        ("Sequence", Some([split, bytes])) => split.is_split(GPT2_PATTERN) && byte_level(bytes, false),
        _ => byte_level(found, true),
    }
}

fn is_every_character(found: &Component) -> bool {
    found.is_split(EVERY_CHARACTER)
}
