//! Structured output: texts that follow a JSON schema, a regular expression or a grammar, whatever the model prefers.
//!
//! A [`Grammar`] says what is wanted. A [`GrammarCompiler`], built once per vocabulary, makes a [`Constraint`] of it, which
//! goes into [`GenerationConfig::constraint`](crate::GenerationConfig::constraint). Before each token is chosen, the constraint sets the logits of all tokens that
//! the grammar does not allow to −∞; everything else (penalties, temperature, top-k, …) then works on what is left.
//!
//! ```
//! use minigpt_generate::{GenerationConfig, Grammar, GrammarCompiler};
//! use minigpt_tokenizer::Tokenizer;
//!
//! let compiler = GrammarCompiler::new(&Tokenizer::gpt2(), 50_257)?;
//! let schema = serde_json::json!({ "type": "object", "properties": { "age": { "type": "integer" } } });
//! let constraint = Some(compiler.compile(&Grammar::JsonSchema(schema))?);
//! let config = GenerationConfig { max_new_tokens: 100, constraint, ..GenerationConfig::default() };
//! # let _ = config;
//! # Ok::<(), minigpt_generate::Error>(())
//! ```

use crate::constraint_error::ConstraintProblem;
use crate::error::{Error, Result};
use crate::gbnf;
use llguidance::api::{ParserLimits, StopReason, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::toktrie::{INVALID_TOKEN, SimpleVob};
use llguidance::{ParserFactory, TokenParser};
use minigpt_tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a schema, a regular expression, a grammar, or all choices together.
pub const MOST_GRAMMAR_BYTES: usize = 128 << 10;
/// How deeply the values of a schema may be nested.
const DEEPEST_SCHEMA: usize = 100;
/// What `multipleOf` may be: each becomes an automaton with as many states.
const MULTIPLES: std::ops::RangeInclusive<f64> = 1e-4..=1e4;
/// Longer tokens are never allowed. The trie holds no deeper paths than 1,024 bytes.
const LONGEST_TOKEN: usize = 512;
/// Bytes of all tokens together; the trie has a node for each, and addresses four million.
const MOST_VOCABULARY_BYTES: usize = 4 << 20;
/// Parser items that a token mask may create. JSON schemas and llama.cpp's example grammars create 5,000 at most.
const MOST_ITEMS: usize = 20_000;
/// Comparisons of parser items for one token, as far as they are known: items times the items in a row of the parser. An
/// ambiguous grammar has rows that grow with the text, and the time for a token grows with their cube: it is 20 to 80 ms at this
/// limit. An object with 300 optional properties takes 1.5 million.
const MOST_COMPARISONS: usize = 4_000_000;
/// Compiling is recursive, so it gets a stack of its own.
const COMPILER_STACK: usize = 64 << 20;
/// White space between the parts of JSON: none, a space, or up to two line breaks and an indentation. Bounded, so that no
/// model can go on with it for ever.
const WHITE_SPACE: &str = r"\x20|\n{1,2}[\x20\t]{0,20}";

/// The form that a text must have.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Grammar {
    /// Any JSON object.
    JsonObject,
    /// A JSON value that satisfies a schema. Keywords that can't be enforced are refused, annotations are ignored.
    JsonSchema(Value),
    /// A regular expression that the whole text matches, in the syntax of Rust's `regex`.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A context-free grammar in GBNF, llama.cpp's notation. The text follows the rule `root`.
    Gbnf(String),
}

/// Compiles grammars for one vocabulary.
pub struct GrammarCompiler {
    factory: ParserFactory,
}

/// A compiled grammar. Clones share it; every text starts at its beginning.
#[derive(Clone)]
pub struct Constraint {
    start: Arc<Mutex<TokenParser>>,
}

/// A constraint as far as one text has come.
pub(crate) struct ConstraintState {
    parser: TokenParser,
    /// Items and rows that the parser has created so far.
    created: (usize, usize),
}

/// The tokens that may follow.
pub(crate) enum Allowed {
    /// Nothing: the text is complete.
    End,
    /// These tokens, and the end of the text if it says so.
    Tokens { tokens: SimpleVob, end: bool },
}

impl GrammarCompiler {
    /// Prepares a vocabulary. Special tokens are never part of a constrained text, and neither are ids from `vocab_size` on,
    /// which is the model's.
    ///
    /// # Errors
    /// The vocabulary is too large.
    pub fn new(tokenizer: &Tokenizer, vocab_size: usize) -> Result<Self> {
        let specials: Vec<u32> =
            tokenizer.special_names().filter_map(|name| tokenizer.special_id(name)).collect();
        let word = |id: u32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            if specials.contains(&id) || bytes.len() > LONGEST_TOKEN { Vec::new() } else { bytes.to_vec() }
        };
        let words: Vec<Vec<u8>> = (0..vocab_size.min(tokenizer.vocab_size()) as u32).map(word).collect();
        let bytes: usize = words.iter().map(Vec::len).sum();
        if bytes > MOST_VOCABULARY_BYTES {
            let most = MOST_VOCABULARY_BYTES;
            return Err(ConstraintProblem::VocabularyTooLarge { bytes, most }.into());
        }
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, INVALID_TOKEN), &words);
        let vocabulary: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices)
            .map_err(|error| ConstraintProblem::Engine(reason(&error.to_string())))?;
        factory.quiet();
        // A state takes one or two kB, and every text has its own.
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: 20_000,
            step_max_items: MOST_ITEMS,
            max_grammar_size: 100_000,
            precompute_large_lexemes: false,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(Self { factory })
    }

    /// Compiles a grammar. This may take a second: servers should call it on a thread of its own.
    ///
    /// # Errors
    /// The grammar is wrong, too large or can't be enforced, or the vocabulary has no token with which a text could begin.
    pub fn compile(&self, grammar: &Grammar) -> Result<Constraint> {
        let source = source(grammar)?;
        let compile = || self.parser(source);
        let compiled = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("grammar".to_owned()).stack_size(COMPILER_STACK);
            match thread.spawn_scoped(scope, compile) {
                Ok(thread) => thread.join().unwrap_or_else(|panic| Err(Error::panicked(&*panic))),
                Err(error) => Err(ConstraintProblem::NoThread(error.to_string()).into()),
            }
        });
        Ok(Constraint { start: Arc::new(Mutex::new(compiled?)) })
    }

    fn parser(&self, grammar: TopLevelGrammar) -> Result<TokenParser> {
        let mut parser = self.factory.create_parser(grammar).map_err(|error| failed(&error))?;
        parser.start_without_prompt();
        // A copy, so that the original is still at its beginning.
        let mut state = ConstraintState::new(parser.deep_clone());
        match state.allowed() {
            Err(_) if state.parser.stop_reason() == StopReason::NoExtensionBias => {
                Err(ConstraintProblem::NoFirstToken.into())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(parser),
        }
    }
}

impl Constraint {
    /// The constraint at the beginning of a text.
    pub(crate) fn begin(&self) -> ConstraintState {
        let start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        ConstraintState::new(start.deep_clone())
    }

    /// Whether a text of these tokens follows the grammar from beginning to end.
    #[cfg(test)]
    pub(crate) fn accepts(&self, ids: &[u32]) -> bool {
        let mut state = self.begin();
        let allowed = ids.iter().all(|&id| {
            let allowed = state.allowed().is_ok_and(|allowed| match allowed {
                Allowed::End => false,
                Allowed::Tokens { tokens, .. } => tokens.is_allowed(id),
            });
            allowed && state.commit(id).is_ok()
        });
        allowed && (state.is_complete() || state.parser.is_accepting())
    }
}

impl ConstraintState {
    fn new(parser: TokenParser) -> Self {
        let created = created(&parser);
        Self { parser, created }
    }

    /// The tokens that may come next.
    ///
    /// # Errors
    /// Nothing may, although the text is not complete; or finding out takes too much.
    pub fn allowed(&mut self) -> Result<Allowed> {
        if self.is_complete() {
            return Ok(Allowed::End);
        }
        let end = self.parser.is_accepting();
        let mask = self.parser.compute_mask();
        self.check_work()?;
        match mask {
            Ok(tokens) => Ok(Allowed::Tokens { tokens, end }),
            // The vocabulary has no token for any valid continuation.
            Err(_) if self.parser.stop_reason() == StopReason::NoExtensionBias => {
                if end {
                    Ok(Allowed::End)
                } else {
                    Err(ConstraintProblem::NoNextToken.into())
                }
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &impl fmt::Display) -> Error {
        match self.parser.stop_reason() {
            StopReason::ParserTooComplex => too_ambiguous(),
            _ => failed(error),
        }
    }

    /// Refuses to go on if the last token and the mask behind it took too much work. The work grows gradually with the text,
    /// so that the token that is one too many takes little more than the one before it.
    fn check_work(&mut self) -> Result<()> {
        let created = created(&self.parser);
        let items = created.0.saturating_sub(self.created.0);
        let rows = created.1.saturating_sub(self.created.1);
        self.created = created;
        if items.saturating_mul(items / rows.max(1)) > MOST_COMPARISONS {
            Err(too_ambiguous())
        } else {
            Ok(())
        }
    }

    /// Takes the token that was chosen.
    pub fn commit(&mut self, id: u32) -> Result<()> {
        self.parser.consume_token(id).map_err(|error| self.failed(&error))?;
        self.parser.check_stop().map(drop).map_err(|error| self.failed(&error))
    }

    /// Whether the text follows the grammar and nothing can be added.
    pub fn is_complete(&self) -> bool {
        matches!(self.parser.stop_reason(), StopReason::NoExtension | StopReason::EndOfSentence)
    }
}

/// Sets the logits of all other tokens to −∞. `ends` are the tokens that end the text.
pub(crate) fn mask(logits: &mut [f32], tokens: &SimpleVob, ends: &[u32], end: bool) {
    let known = tokens.len();
    for (id, logit) in logits.iter_mut().enumerate() {
        let id = id as u32;
        let allowed = if ends.contains(&id) { end } else { (id as usize) < known && tokens.is_allowed(id) };
        if !allowed {
            *logit = f32::NEG_INFINITY;
        }
    }
}

fn source(grammar: &Grammar) -> Result<TopLevelGrammar> {
    let check = |bytes: usize| -> Result<(), ConstraintProblem> {
        if bytes > MOST_GRAMMAR_BYTES {
            Err(ConstraintProblem::TooLarge { bytes, most: MOST_GRAMMAR_BYTES })
        } else {
            Ok(())
        }
    };
    Ok(match grammar {
        Grammar::JsonObject => {
            TopLevelGrammar::from_json_schema(with_white_space(&json!({"type": "object"}))?)
        }
        Grammar::JsonSchema(schema) => {
            check_values(schema)?;
            check(schema.to_string().len())?;
            TopLevelGrammar::from_json_schema(with_white_space(schema)?)
        }
        Grammar::Regex(regex) => {
            check(regex.len())?;
            TopLevelGrammar::from_regex(unanchored(regex))
        }
        Grammar::Choice(choices) => {
            check(choices.iter().map(String::len).sum())?;
            if choices.iter().all(String::is_empty) {
                return Err(ConstraintProblem::NoChoices.into());
            }
            let choices: Vec<String> = choices.iter().map(|choice| literal(choice)).collect();
            TopLevelGrammar::from_regex(&choices.join("|"))
        }
        Grammar::Gbnf(text) => {
            check(text.len())?;
            TopLevelGrammar::from_lark(gbnf::to_lark(text)?)
        }
    })
}

/// A schema whose JSON is written with bounded white space.
fn with_white_space(schema: &Value) -> Result<Value> {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        Value::Bool(true) => serde_json::Map::new(),
        Value::Bool(false) => return Err(ConstraintProblem::FalseSchema.into()),
        _ => return Err(ConstraintProblem::NotAnObject.into()),
    };
    if schema.contains_key("x-guidance") {
        return Err(ConstraintProblem::Keyword("x-guidance").into());
    }
    schema.insert("x-guidance".to_owned(), json!({ "whitespace_pattern": WHITE_SPACE }));
    Ok(Value::Object(schema))
}

/// The role of a value inside a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A schema, or a list of schemas.
    Schema,
    /// Schemas by names that the schema's author chose, such as `properties`.
    Named,
    /// Values of the text, such as those of `enum`.
    Data,
}

/// Keywords that say something about a text which can't be enforced, and which the library takes for annotations.
const NOT_ENFORCED: [&str; 2] = ["contentMediaType", "contentEncoding"];

/// Looks at a schema without recursion: how deep it is, whether the library can compute with its numbers, and whether it has
/// keywords that the library would ignore.
fn check_values(schema: &Value) -> Result<()> {
    let mut values = vec![(schema, 0, Part::Schema)];
    while let Some((value, depth, part)) = values.pop() {
        if depth > DEEPEST_SCHEMA {
            return Err(ConstraintProblem::TooDeep(DEEPEST_SCHEMA).into());
        }
        match value {
            Value::Array(array) => values.extend(array.iter().map(|value| (value, depth + 1, part))),
            Value::Object(object) => {
                if part == Part::Schema {
                    check_keywords(object)?;
                }
                let inside = |name: &str| match (part, name) {
                    (Part::Data, _) | (Part::Schema, "enum" | "const" | "default" | "examples") => Part::Data,
                    (
                        Part::Schema,
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    ) => Part::Named,
                    (Part::Schema | Part::Named, _) => Part::Schema,
                };
                values.extend(object.iter().map(|(name, value)| (value, depth + 1, inside(name))));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_keywords(schema: &serde_json::Map<String, Value>) -> Result<()> {
    let multiple = schema.get("multipleOf").and_then(Value::as_f64);
    if multiple.is_some_and(|multiple| !MULTIPLES.contains(&multiple)) {
        let (least, most) = MULTIPLES.into_inner();
        return Err(ConstraintProblem::MultipleOf { least, most }.into());
    }
    match NOT_ENFORCED.into_iter().find(|name| schema.contains_key(*name)) {
        Some(name) => Err(ConstraintProblem::Keyword(name).into()),
        None => Ok(()),
    }
}

/// The whole text has to match anyway, so anchors around an expression say nothing.
fn unanchored(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    match regex.strip_suffix('$') {
        Some(rest) if (rest.len() - rest.trim_end_matches('\\').len()).is_multiple_of(2) => rest,
        _ => regex,
    }
}

/// A regular expression for a text.
pub(crate) fn literal(text: &str) -> String {
    text.chars().map(|c| format!(r"\x{{{:x}}}", c as u32)).collect()
}

/// Items and rows that a parser has created so far.
fn created(parser: &TokenParser) -> (usize, usize) {
    let stats = parser.parser_stats();
    (stats.all_items, stats.rows)
}

fn too_ambiguous() -> Error {
    ConstraintProblem::TooAmbiguous.into()
}

fn failed(error: &impl fmt::Display) -> Error {
    let message = reason(&error.to_string());
    if message.contains("coerce_one_of") {
        ConstraintProblem::OverlappingOneOf.into()
    } else {
        ConstraintProblem::Engine(message).into()
    }
}

/// The first lines of what the library says, without its marks.
fn reason(message: &str) -> String {
    const LONGEST: usize = 400;
    let message = message.replace("<non-verbose/>", "");
    let message = message.split("<state>").next().unwrap_or_default();
    let message = message.split("<backtrace>").next().unwrap_or_default().trim();
    match message.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

/// Clones of one compilation are equal.
impl PartialEq for Constraint {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.start, &other.start)
    }
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrammarCompiler")
    }
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Constraint")
    }
}

impl fmt::Debug for ConstraintState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConstraintState")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items that a parser creates until a text has `most` tokens or is refused, and the refusal.
    fn work(grammar: &str, text: &str, most: usize) -> (usize, Option<String>) {
        let tokenizer = Tokenizer::gpt2();
        let compiler = GrammarCompiler::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        let constraint = match compiler.compile(&Grammar::Gbnf(grammar.to_owned())) {
            Ok(constraint) => constraint,
            Err(error) => return (0, Some(error.to_string())),
        };
        let mut state = constraint.begin();
        for &id in tokenizer.encode(text).unwrap().iter().cycle().take(most) {
            if let Err(error) = state.allowed().and_then(|_| state.commit(id)) {
                return (state.created.0, Some(error.to_string()));
            }
        }
        (state.created.0, None)
    }

    #[test]
    fn an_ambiguous_grammar_ends_after_a_bounded_number_of_items() {
        let ambiguous = [
            "root ::= e\ne ::= e e | e e e | [a-z ] | \"th\" | \"the\"",
            "root ::= e\ne ::= e e | [a-z ]",
            "root ::= e\ne ::= e e e e | [a-z ]",
            "root ::= e e\ne ::= e e | f f\nf ::= e f | [a-z ] | f \"t\"",
        ];
        for grammar in ambiguous {
            let (items, refused) = work(grammar, " the end of the world", 200);
            assert!(refused.is_some_and(|refused| refused.contains("too ambiguous")), "{grammar}");
            assert!(items < 40 * MOST_ITEMS, "{grammar}: {items}");
        }
        let plain = "root ::= (word \" \")* word\nword ::= [a-z]+ | e\ne ::= \"(\" e \")\" | [a-z]";
        assert_eq!(work(plain, "the end of the world ", 200).1, None);
    }
}
