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
use crate::error::{Error, Result};
use crate::pipeline::PipelineTokenizer;
use crate::tokenizer::Tokenizer;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use minigpt_files::is_there;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// What splits a text into its characters, line ends included.
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
    /// What a template makes of one text.
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
            Err(Error::Unsupported { .. }) => pipeline(path, bytes),
            tokenizer => tokenizer,
        }
    } else if file.word2id.is_some() || file.id2word.is_some() {
        vocabulary::from_maps(path, file.word2id, file.id2word).map(Tokenizer::Char)
    } else {
        let what = r#"neither a tokenizer.json (no "model") nor a vocabulary file (no "word2id")"#;
        Err(Error::Malformed { path: path.to_owned(), what: what.to_owned() })
    }
}

/// A tokenizer that is not one of ours.
fn pipeline(path: &Path, bytes: Vec<u8>) -> Result<Tokenizer> {
    let config = path.with_file_name("tokenizer_config.json");
    let config = is_there(&config)?.then(|| read(&config)).transpose()?;
    PipelineTokenizer::read(path, bytes, config).map(Tokenizer::Pipeline)
}

/// All of the file but the model.
struct Reader<'a> {
    path: &'a Path,
    file: TokenizerJson,
}

impl Reader<'_> {
    fn tokenizer(self, mut model: Model) -> Result<Tokenizer> {
        let vocab = model.vocab.take();
        let kind = match (&model.kind, &model.merges, &vocab) {
            (Some(kind), _, _) => kind.as_str(),
            (None, Some(_), _) => "BPE",
            (None, None, Some(Vocab::List)) => "Unigram",
            _ => "of no type that the file names",
        };
        match (kind, vocab) {
            ("BPE", Some(Vocab::Ids(vocab))) => self.bpe(model, vocab).map(Tokenizer::Bpe),
            ("WordLevel", Some(Vocab::Ids(vocab))) => self.characters(&model, vocab).map(Tokenizer::Char),
            ("BPE" | "WordLevel", _) => Err(self.malformed("the model has no vocabulary of tokens with ids")),
            _ => Err(self.unsupported(format!("the model is {kind}"))),
        }
    }

    fn bpe(&self, model: Model, vocab: Vec<(String, u32)>) -> Result<BpeTokenizer> {
        self.refuse_settings(&model)?;
        self.refuse("normalizer", self.file.normalizer.as_ref(), |_| false)?;
        self.refuse("pre-tokenizer", self.file.pre_tokenizer.as_ref(), is_gpt2)?;
        if self.file.pre_tokenizer.is_none() {
            return Err(self.unsupported("the BPE has no pre-tokenizer".to_owned()));
        }
        self.refuse("post-processor", self.file.post_processor.as_ref(), Component::changes_no_ids)?;
        self.refuse("decoder", self.file.decoder.as_ref(), |found| found.kind == "ByteLevel")?;
        let (tokens, specials) = self.with_added(vocab)?;
        let merges: Vec<_> = model.merges.unwrap_or_default().into_iter().map(|Merge(a, b)| (a, b)).collect();
        spelt::bpe(self.path, &tokens, &merges, &specials)
    }

    fn characters(&self, model: &Model, vocab: Vec<(String, u32)>) -> Result<CharTokenizer> {
        self.refuse("normalizer", self.file.normalizer.as_ref(), |_| false)?;
        self.refuse("pre-tokenizer", self.file.pre_tokenizer.as_ref(), is_every_character)?;
        if self.file.pre_tokenizer.is_none() {
            return Err(self.unsupported("the WordLevel model has no pre-tokenizer".to_owned()));
        }
        self.refuse("post-processor", self.file.post_processor.as_ref(), Component::changes_no_ids)?;
        self.refuse("decoder", self.file.decoder.as_ref(), |found| found.kind == "Fuse")?;
        if let Some(unk) = model.unk_token.as_deref().filter(|&unk| unk != UNK) {
            return Err(self.unsupported(format!("the token for unknown characters is {unk:?}, not {UNK:?}")));
        }
        let (tokens, specials) = self.with_added(vocab)?;
        CharTokenizer::from_tokens(tokens, &specials).map_err(|error| self.malformed(&error.to_string()))
    }

    /// Puts the added tokens, which are in the vocabulary or follow it, and the others in the order of their ids.
    fn with_added(&self, mut vocab: Vec<(String, u32)>) -> Result<(Vec<String>, Vec<String>)> {
        let added = self.file.added_tokens.as_deref().unwrap_or_default();
        let known: HashMap<&str, u32, RandomState> =
            vocab.iter().map(|(token, id)| (token.as_str(), *id)).collect();
        let mut further = Vec::new();
        for AddedToken { id, content, single_word, lstrip, rstrip } in added {
            if *single_word || *lstrip || *rstrip {
                let what = format!("the added token {content:?} strips spaces or matches only whole words");
                return Err(self.unsupported(what));
            }
            match known.get(content.as_str()) {
                None => further.push((content.clone(), *id)),
                Some(known) if known == id => {}
                Some(known) => {
                    let what =
                        format!("the added token {content:?} has id {id}, and {known} in the vocabulary");
                    return Err(self.malformed(&what));
                }
            }
        }
        drop(known);
        vocab.append(&mut further);
        Ok((ids::in_order(self.path, vocab)?, added.iter().map(|token| token.content.clone()).collect()))
    }

    fn refuse_settings(&self, model: &Model) -> Result<()> {
        let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        let settings = [
            ("dropout", model.dropout.is_some_and(|dropout| dropout != 0.0)),
            ("continuing_subword_prefix", is_set(&model.continuing_subword_prefix)),
            ("end_of_word_suffix", is_set(&model.end_of_word_suffix)),
            ("byte_fallback", model.byte_fallback),
            ("ignore_merges", model.ignore_merges),
        ];
        match settings.iter().find(|(_, set)| *set) {
            Some((name, _)) => Err(self.unsupported(format!("the BPE has {name:?} set"))),
            None => Ok(()),
        }
    }

    /// Refuses a stage of the pipeline that is there and not as it should be.
    fn refuse(
        &self,
        stage: &str,
        found: Option<&Component>,
        accept: impl Fn(&Component) -> bool,
    ) -> Result<()> {
        match found {
            Some(found) if !accept(found) => {
                Err(self.unsupported(format!("the {stage} is {}", found.describe())))
            }
            _ => Ok(()),
        }
    }

    fn unsupported(&self, what: String) -> Error {
        Error::Unsupported { path: self.path.to_owned(), what }
    }

    fn malformed(&self, what: &str) -> Error {
        Error::Malformed { path: self.path.to_owned(), what: what.to_owned() }
    }
}

impl Component {
    /// The kind, with the settings that make it another one.
    fn describe(&self) -> String {
        let mut text = self.kind.clone();
        if self.add_prefix_space == Some(true) {
            text.push_str(" with add_prefix_space");
        }
        if self.use_regex == Some(false) {
            text.push_str(" without GPT-2's pattern");
        }
        if let Some(regex) = self.pattern.as_ref().and_then(|pattern| pattern.regex.as_ref()) {
            text.push_str(&format!(" on {regex:?}"));
        }
        let parts: Vec<_> = self.pretokenizers.iter().flatten().map(Self::describe).collect();
        if parts.is_empty() { text } else { format!("{text} of {}", parts.join(", ")) }
    }

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
