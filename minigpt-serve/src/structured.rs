//! Structured output: what a request says about the form of its text, under OpenAI's, llama.cpp's and vLLM's names.

use crate::body::aside;
use crate::problem::Problem;
use crate::served_model::ServedModel;
use minigpt_generate::{Constraint, Grammar, GrammarCompiler};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use utoipa::ToSchema;

/// Grammars of one model that are compiled at once.
const COMPILED_AT_ONCE: usize = 2;
/// A grammar that takes longer is refused.
const LONGEST_COMPILATION: Duration = Duration::from_secs(10);

/// What the text has to look like. At most one of these fields is given.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct Structured {
    /// `{"type": "json_schema", "json_schema": {"schema": …}}`, `{"type": "json_object"}` or `{"type": "text"}`.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// A JSON schema, as llama.cpp calls it.
    #[schema(value_type = Option<Object>)]
    json_schema: Option<Value>,
    /// A grammar in GBNF, as llama.cpp calls it.
    grammar: Option<String>,
    /// vLLM's `{"json": …}`, `{"regex": …}`, `{"choice": […]}`, `{"grammar": …}` or `{"json_object": true}`.
    #[schema(value_type = Option<Object>)]
    structured_outputs: Option<Value>,
    /// A JSON schema, as vLLM called it.
    #[schema(value_type = Option<Object>)]
    guided_json: Option<Value>,
    /// A regular expression that the whole text matches.
    guided_regex: Option<String>,
    /// Texts, one of which is written.
    guided_choice: Option<Vec<String>>,
    /// A grammar in GBNF, as vLLM called it.
    guided_grammar: Option<String>,
}

impl Structured {
    /// Takes the format from `text.format` of `/v1/responses`, which has the schema beside the type.
    pub fn set_text_format(&mut self, format: &Value) -> Result<(), Problem> {
        let taken = match format.get("type").and_then(Value::as_str) {
            Some("text") if format.get("schema").is_none() => return Ok(()),
            Some("json_schema") => json!({ "type": "json_schema", "json_schema": format }),
            _ => format.clone(),
        };
        if self.response_format.as_ref().is_some_and(|given| !given.is_null()) {
            let message =
                "text.format and response_format both say what the text looks like: give one of them";
            return Err(Problem::field("text", message));
        }
        self.response_format = Some(taken);
        Ok(())
    }

    /// The one grammar that is asked for, with the field that asks for it.
    fn grammar(self) -> Result<Option<(&'static str, Grammar)>, Problem> {
        let given = [
            ("response_format", self.response_format.map(response_format).transpose()?.flatten()),
            ("json_schema", self.json_schema.map(Grammar::JsonSchema)),
            ("grammar", self.grammar.filter(|text| !text.is_empty()).map(Grammar::Gbnf)),
            ("structured_outputs", self.structured_outputs.map(structured_outputs).transpose()?.flatten()),
            ("guided_json", self.guided_json.map(|value| schema("guided_json", value)).transpose()?),
            ("guided_regex", self.guided_regex.filter(|regex| !regex.is_empty()).map(Grammar::Regex)),
            ("guided_choice", self.guided_choice.filter(|texts| !texts.is_empty()).map(Grammar::Choice)),
            ("guided_grammar", self.guided_grammar.filter(|text| !text.is_empty()).map(Grammar::Gbnf)),
        ];
        let mut given = given.into_iter().filter_map(|(field, grammar)| Some((field, grammar?)));
        let first = given.next();
        match (&first, given.next()) {
            (Some((one, _)), Some((other, _))) => {
                let message =
                    format!("{one} and {other} both say what the text looks like: give one of them");
                Err(Problem::field(other, message))
            }
            _ => Ok(first),
        }
    }

    /// Compiles what is asked for, without keeping others waiting.
    pub async fn constraint(self, model: &Arc<ServedModel>) -> Result<Option<Constraint>, Problem> {
        let Some((field, grammar)) = self.grammar()? else { return Ok(None) };
        model.need_tokenizer()?;
        let compilation = async {
            let turn = Arc::clone(&model.grammars.turns).acquire_owned().await;
            let model = Arc::clone(model);
            aside(move || {
                // Kept until it is done, also when nobody waits any more.
                let _turn = turn;
                model.grammars.compile(&model, field, &grammar)
            })
            .await
        };
        match timeout(LONGEST_COMPILATION, compilation).await {
            Ok(compiled) => compiled.map(Some),
            Err(_) => {
                Err(Problem::field(field, format!("{field} takes too long to compile: make it simpler")))
            }
        }
    }
}

/// The grammars of one model.
#[derive(Debug)]
pub(crate) struct Grammars {
    /// Prepared for the first request that needs it.
    compiler: OnceLock<Result<GrammarCompiler, Problem>>,
    turns: Arc<Semaphore>,
}

impl Default for Grammars {
    fn default() -> Self {
        Self { compiler: OnceLock::new(), turns: Arc::new(Semaphore::new(COMPILED_AT_ONCE)) }
    }
}

impl Grammars {
    fn compile(&self, model: &ServedModel, field: &str, grammar: &Grammar) -> Result<Constraint, Problem> {
        let prepare = || {
            let vocab_size = model.gpt.config().vocab_size;
            GrammarCompiler::new(model.need_tokenizer()?, vocab_size).map_err(Problem::from)
        };
        let compiler = self.compiler.get_or_init(prepare).as_ref().map_err(Problem::clone)?;
        compiler.compile(grammar).map_err(|error| Problem::field(field, format!("{field}: {error}")))
    }
}

/// OpenAI's shape, with the schema where llama.cpp's clients put it, too.
fn response_format(mut value: Value) -> Result<Option<Grammar>, Problem> {
    let wrong = |message: &str| Problem::field("response_format", format!("response_format{message}"));
    let format = value.as_object_mut().ok_or_else(|| wrong(" must be an object"))?;
    let kind = format.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut take = |name: &str| format.remove(name).filter(|value| !value.is_null());
    let (schema, named) = (take("schema"), take("json_schema"));
    // A schema that would have no effect is refused.
    let misplaced = match kind.as_str() {
        "text" if schema.is_some() => Some("schema"),
        "text" | "json_object" if named.is_some() => Some("json_schema"),
        "json_schema" if schema.is_some() && named.is_some() => Some("schema"),
        _ => None,
    };
    if let Some(name) = misplaced {
        return Err(match kind.as_str() {
            "json_schema" => {
                wrong(".schema and response_format.json_schema are both given: give one of them")
            }
            _ => wrong(&format!(".{name} has no effect with type {kind}: use type json_schema")),
        });
    }
    match kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(schema.map_or(Grammar::JsonObject, Grammar::JsonSchema))),
        "json_schema" => {
            let mut named = named;
            let inner = named.as_mut().and_then(Value::as_object_mut);
            if let Some(inner) = &inner
                && inner.get("strict").is_some_and(|strict| !strict.is_boolean() && !strict.is_null())
            {
                return Err(wrong(".json_schema.strict must be true or false"));
            }
            let schema = inner.and_then(|inner| inner.remove("schema")).or(schema);
            match schema {
                Some(schema) => Ok(Some(Grammar::JsonSchema(schema))),
                None => Err(wrong(".json_schema.schema is missing")),
            }
        }
        _ => Err(wrong(".type must be text, json_object or json_schema")),
    }
}

/// vLLM's shape.
fn structured_outputs(value: Value) -> Result<Option<Grammar>, Problem> {
    let wrong = |message: &str| Problem::field("structured_outputs", format!("structured_outputs{message}"));
    let Value::Object(fields) = value else { return Err(wrong(" must be an object")) };
    let mut found = None;
    for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let grammar = match name.as_str() {
            "json" => Some(schema("structured_outputs.json", value)?),
            "regex" => text(&value).map(Grammar::Regex),
            "grammar" => text(&value).map(Grammar::Gbnf),
            "choice" => {
                let choices = value.as_array().map(Vec::as_slice).unwrap_or_default();
                choices.iter().map(text).collect::<Option<_>>().map(Grammar::Choice)
            }
            "json_object" => match value {
                Value::Bool(true) => Some(Grammar::JsonObject),
                Value::Bool(false) => continue,
                _ => None,
            },
            // These say how vLLM goes about it.
            "disable_fallback" | "disable_any_whitespace" | "disable_additional_properties"
                if value == Value::Bool(false) =>
            {
                continue;
            }
            _ => {
                let name: String = name.chars().take(40).collect();
                return Err(wrong(&format!(".{name} is not supported")));
            }
        };
        let grammar = grammar.ok_or_else(|| wrong(&format!(".{name} has the wrong type")))?;
        if found.replace(grammar).is_some() {
            return Err(wrong(" must have one of json, regex, choice, grammar and json_object"));
        }
    }
    Ok(found)
}

/// A schema, or the JSON text of one.
fn schema(field: &str, value: Value) -> Result<Grammar, Problem> {
    match value {
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(schema) => Ok(Grammar::JsonSchema(schema)),
            Err(error) => {
                let param = field.split('.').next().unwrap_or(field);
                Err(Problem::field(param, format!("{field} is not JSON: {error}")))
            }
        },
        schema => Ok(Grammar::JsonSchema(schema)),
    }
}
