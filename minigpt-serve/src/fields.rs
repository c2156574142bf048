//! Every field of OpenAI's, llama.cpp's and vLLM's requests, and what each route does with it: done, refused by name, or
//! harmless. A field that is not in the table is ignored, and named in the log and in the header `x-minigpt-ignored`.
//!
//! A test holds the table against the request types, and another one asks a server about every refused field.

use crate::problem::Problem;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// A route, as far as its fields are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Chat,
    Completions,
    Llama,
    Responses,
    Embeddings,
    Tokenize,
    Detokenize,
    Template,
}

use Route::{Chat, Completions, Detokenize, Embeddings, Llama, Responses, Template, Tokenize};

const ALL: &[Route] = &[Chat, Completions, Llama, Responses, Embeddings, Tokenize, Detokenize, Template];
/// Routes that generate text.
const WRITE: &[Route] = &[Chat, Completions, Llama, Responses];
/// Routes that take a conversation.
const CONVERSATION: &[Route] = &[Chat, Template];
const OPENAI: &[Route] = &[Chat, Completions];
const NOWHERE: &[Route] = &[];

/// A field, and what each route does with it.
struct Field {
    name: &'static str,
    /// Routes that read it.
    done: &'static [Route],
    /// What the other routes do.
    elsewhere: Elsewhere,
}

#[derive(Clone, Copy)]
enum Elsewhere {
    /// It does not change the answer.
    Harmless,
    /// It would change the answer: refused with a reason, unless it has one of these values, which are no-ops.
    Refused { because: &'static str, unless: &'static [&'static str] },
}

const fn done(name: &'static str, done: &'static [Route], elsewhere: Elsewhere) -> Field {
    Field { name, done, elsewhere }
}

const fn refused(name: &'static str, because: &'static str, unless: &'static [&'static str]) -> Field {
    Field { name, done: NOWHERE, elsewhere: Elsewhere::Refused { because, unless } }
}

const fn harmless(name: &'static str) -> Field {
    Field { name, done: NOWHERE, elsewhere: Elsewhere::Harmless }
}

const HARMLESS: Elsewhere = Elsewhere::Harmless;
const NOT_HERE: Elsewhere =
    Elsewhere::Refused { because: "not supported on this route", unless: &["false", "\"\"", "[]", "{}"] };

const SAMPLER: &str = "this sampler is not implemented";
const STRUCTURED: &str = "a schema or grammar holds from the first token on";
const TEXT_ONLY: &str = "these models read and write text only";
const LEFT_TO_RIGHT: &str = "these models can't fill in the middle";
const LOGPROBS: &str = "use logprobs, or n_probs on /completion";
const OFF: &[&str] = &["false", "0"];
const EMPTY: &[&str] = &["\"\"", "[]", "{}"];

const FIELDS: &[Field] = &[
    // Prompt.
    done("model", ALL, HARMLESS),
    done("messages", CONVERSATION, NOT_HERE),
    done("prompt", &[Completions, Llama, Tokenize], NOT_HERE),
    done("content", &[Tokenize], NOT_HERE),
    done("tokens", &[Detokenize], NOT_HERE),
    done("input", &[Responses, Embeddings], NOT_HERE),
    done("instructions", &[Responses], NOT_HERE),
    refused("previous_response_id", "answers are not kept: send the whole conversation as input", EMPTY),
    refused("conversation", "conversations are not kept: send the whole conversation as input", EMPTY),
    refused("background", "answers are not kept, so they must be waited for", OFF),
    refused("suffix", LEFT_TO_RIGHT, EMPTY),
    refused("input_prefix", LEFT_TO_RIGHT, EMPTY),
    refused("input_suffix", LEFT_TO_RIGHT, EMPTY),
    refused("input_extra", LEFT_TO_RIGHT, EMPTY),
    refused("image_data", TEXT_ONLY, EMPTY),
    refused("multimodal_data", TEXT_ONLY, EMPTY),
    refused("mm_processor_kwargs", TEXT_ONLY, EMPTY),
    refused("media_io_kwargs", TEXT_ONLY, EMPTY),
    refused("audio", TEXT_ONLY, EMPTY),
    refused("modalities", TEXT_ONLY, &["[\"text\"]", "[]"]),
    refused("prompt_embeds", "a prompt is text or ids", EMPTY),
    refused("documents", "put documents into a message", EMPTY),
    refused("web_search_options", "there is no web search here", &[]),
    // Length and stopping.
    done("max_tokens", WRITE, HARMLESS),
    done("max_completion_tokens", WRITE, HARMLESS),
    done("n_predict", WRITE, HARMLESS),
    done("min_tokens", WRITE, HARMLESS),
    done("max_output_tokens", &[Responses], Elsewhere::Refused { because: "use max_tokens", unless: &[] }),
    done(
        "n",
        &[Chat, Completions, Llama],
        Elsewhere::Refused { because: "there is one answer", unless: &["1"] },
    ),
    done("n_cmpl", &[Llama], Elsewhere::Refused { because: "use n", unless: &["1"] }),
    done("best_of", &[Completions], Elsewhere::Refused { because: "use n, and choose", unless: &["1"] }),
    done("stop", WRITE, HARMLESS),
    done("stop_token_ids", WRITE, HARMLESS),
    done("ignore_eos", WRITE, HARMLESS),
    refused("include_stop_str_in_output", "a stop string is never part of the text", OFF),
    refused("t_max_predict_ms", "use max_tokens, or close the connection", OFF),
    refused("n_indent", "indentation limits are not implemented", OFF),
    refused("thinking_budget_tokens", "thinking budgets are not implemented: use max_tokens", &["-1"]),
    refused("thinking_token_budget", "thinking budgets are not implemented: use max_tokens", &["-1"]),
    refused("truncate_prompt_tokens", "prompts are never truncated: shorten it", &[]),
    done("truncation", &[Responses], NOT_HERE),
    refused("truncation_side", "prompts are never truncated: shorten it", &[]),
    // Sampling.
    done("temperature", WRITE, HARMLESS),
    done("top_p", WRITE, HARMLESS),
    done("top_k", WRITE, HARMLESS),
    done("min_p", WRITE, HARMLESS),
    done("repetition_penalty", WRITE, HARMLESS),
    done("repeat_penalty", WRITE, HARMLESS),
    done("repeat_last_n", WRITE, HARMLESS),
    done("frequency_penalty", WRITE, HARMLESS),
    done("presence_penalty", WRITE, HARMLESS),
    done("num_beams", WRITE, HARMLESS),
    done("seed", WRITE, HARMLESS),
    done("logit_bias", WRITE, HARMLESS),
    done("bad_words", WRITE, HARMLESS),
    refused("allowed_token_ids", "use logit_bias", EMPTY),
    refused("logits_processors", "code from clients is never executed", EMPTY),
    refused("use_beam_search", "use num_beams", OFF),
    refused("length_penalty", "beam search ranks by log-probability per token", &["1"]),
    refused("early_stopping", "beam search stops by Hugging Face's default rule", OFF),
    refused("repetition_detection", SAMPLER, &[]),
    refused("typical_p", SAMPLER, &["1"]),
    refused("typ_p", SAMPLER, &["1"]),
    refused("tfs_z", SAMPLER, &["1"]),
    refused("top_n_sigma", SAMPLER, &["-1", "0"]),
    refused("top_a", SAMPLER, OFF),
    refused("dynatemp_range", SAMPLER, OFF),
    // Without a range it means nothing.
    harmless("dynatemp_exponent"),
    refused("mirostat", SAMPLER, OFF),
    harmless("mirostat_tau"),
    harmless("mirostat_eta"),
    refused("dry_multiplier", SAMPLER, OFF),
    harmless("dry_base"),
    harmless("dry_allowed_length"),
    harmless("dry_penalty_last_n"),
    harmless("dry_sequence_breakers"),
    refused("xtc_probability", SAMPLER, OFF),
    harmless("xtc_threshold"),
    refused("adaptive_target", SAMPLER, &["-1"]),
    harmless("adaptive_decay"),
    refused("penalize_nl", "a new line is a token like others", &["true", "false"]),
    refused("min_keep", "use top_k", &["0", "1"]),
    refused("samplers", "the order is fixed: penalties, temperature, top_k, top_p, min_p", EMPTY),
    refused("sampler_seq", "the order is fixed: penalties, temperature, top_k, top_p, min_p", EMPTY),
    refused("backend_sampling", "there is one way to sample", &["true", "false"]),
    // Structured output.
    done("response_format", WRITE, HARMLESS),
    done("grammar", WRITE, HARMLESS),
    refused("grammar_lazy", STRUCTURED, OFF),
    refused("grammar_triggers", STRUCTURED, EMPTY),
    done("json_schema", WRITE, HARMLESS),
    done("structured_outputs", WRITE, HARMLESS),
    refused("structural_tag", STRUCTURED, EMPTY),
    done("guided_json", WRITE, HARMLESS),
    done("guided_regex", WRITE, HARMLESS),
    done("guided_choice", WRITE, HARMLESS),
    done("guided_grammar", WRITE, HARMLESS),
    harmless("guided_decoding_backend"),
    refused("guided_whitespace_pattern", "white space in JSON is fixed", EMPTY),
    // Chat.
    done("tools", CONVERSATION, Elsewhere::Refused { because: "only chats have tools", unless: EMPTY }),
    done(
        "tool_choice",
        CONVERSATION,
        Elsewhere::Refused { because: "only chats have tools", unless: &["\"none\"", "\"auto\""] },
    ),
    done("parallel_tool_calls", CONVERSATION, HARMLESS),
    refused("parse_tool_calls", "calls are always found where tools are given", &["true"]),
    refused("functions", "use tools, which replaced it", EMPTY),
    refused("function_call", "use tool_choice, which replaced it", &["\"none\"", "\"auto\""]),
    done("add_generation_prompt", CONVERSATION, NOT_HERE),
    done("continue_final_message", CONVERSATION, NOT_HERE),
    refused("chat_template", "the model's own template is always used", EMPTY),
    done("chat_template_kwargs", CONVERSATION, NOT_HERE),
    done("reasoning_effort", CONVERSATION, NOT_HERE),
    refused("reasoning_format", "reasoning is part of the text", &["\"none\"", "\"auto\""]),
    done("text", &[Responses], NOT_HERE),
    refused("reasoning", "reasoning is part of the text", EMPTY),
    refused("include_reasoning", "reasoning is part of the text", &["true"]),
    refused("enable_thinking", "models served here have no such setting", &[]),
    refused("verbosity", "models served here have no such setting", &["\"medium\""]),
    // What the answer has beside the text.
    done("logprobs", OPENAI, Elsewhere::Refused { because: "use n_probs", unless: OFF }),
    done("top_logprobs", &[Chat], Elsewhere::Refused { because: LOGPROBS, unless: OFF }),
    done("n_probs", &[Llama], Elsewhere::Refused { because: "use logprobs", unless: OFF }),
    done("echo", &[Completions], Elsewhere::Refused { because: "use /v1/completions", unless: OFF }),
    refused("prompt_logprobs", "use echo with logprobs on /v1/completions", &["false"]),
    refused("post_sampling_probs", "log-probabilities are the model's own, before sampling", OFF),
    done("return_tokens", &[Llama], Elsewhere::Refused { because: "use /completion", unless: OFF }),
    refused("return_token_ids", "use return_tokens on /completion", OFF),
    refused("return_tokens_as_token_ids", "use return_tokens on /completion", OFF),
    done("response_fields", &[Llama], Elsewhere::Refused { because: "use /completion", unless: EMPTY }),
    refused("timings_per_token", "timings are in the last event", OFF),
    refused("return_progress", "/slots tells how far a prompt is read", OFF),
    refused("logprobs_mode", "log-probabilities are the model's own", &["\"raw_logprobs\""]),
    refused(
        "skip_special_tokens",
        "the tokens that end a text are left out, all others are shown",
        &["true"],
    ),
    done("stream", WRITE, Elsewhere::Refused { because: "this answer comes as a whole", unless: OFF }),
    done("stream_options", OPENAI, HARMLESS),
    done("cache_prompt", WRITE, HARMLESS),
    refused("cache_salt", "what was read can't be kept apart by request", EMPTY),
    refused("lora", "there are no adapters here", EMPTY),
    refused("include", "an answer has nothing that it could leave out", EMPTY),
    done("encoding_format", &[Embeddings], NOT_HERE),
    done("dimensions", &[Embeddings], NOT_HERE),
    refused("embd_normalize", "embeddings have a length of 1", &["2"]),
    refused("normalize", "embeddings have a length of 1", &["true"]),
    refused("pooling", "an embedding is the mean over the tokens", &["\"mean\""]),
    refused("input_type", "models here know no kinds of input", EMPTY),
    // Text to ids and back.
    done("parse_special", &[Tokenize], NOT_HERE),
    done("with_pieces", &[Tokenize], NOT_HERE),
    done("add_special", &[Tokenize], HARMLESS),
    done("add_special_tokens", &[Tokenize], HARMLESS),
    refused("return_token_strs", "use with_pieces", OFF),
    // Bookkeeping.
    harmless("user"),
    harmless("store"),
    done("metadata", &[Responses], HARMLESS),
    harmless("max_tool_calls"),
    harmless("service_tier"),
    harmless("safety_identifier"),
    harmless("prompt_cache_key"),
    harmless("prompt_cache_retention"),
    harmless("prompt_cache_options"),
    harmless("prediction"),
    harmless("priority"),
    harmless("request_id"),
    harmless("spaces_between_special_tokens"),
    harmless("kv_transfer_params"),
    harmless("id_slot"),
    harmless("n_keep"),
    harmless("n_discard"),
    harmless("n_cache_reuse"),
    harmless("sse_ping_interval"),
    harmless("speculative.n_max"),
    harmless("speculative.n_min"),
    harmless("speculative.p_min"),
];

/// The most names that are told, and the most characters of each.
pub(crate) const MOST_NAMES: usize = 16;
const LONGEST_NAME: usize = 64;

/// A request whose fields the table knows.
pub(crate) trait Fields: Sized {
    const ROUTE: Route;

    /// Reads it from a body.
    fn read(bytes: &[u8]) -> Result<Self, Problem>;
}

/// Checks the field names of a JSON object, refuses fields that the route can't honour, and returns the names of unknown fields.
pub(crate) fn check(bytes: &[u8], route: Route) -> Result<Vec<String>, Problem> {
    let mut seen = Seen { route, unknown: Vec::new(), refused: None };
    let walked = serde_json::Deserializer::from_slice(bytes).deserialize_map(&mut seen);
    if let Some((name, because)) = seen.refused {
        return Err(Problem::field(name, format!("{name} is not supported: {because}")));
    }
    walked.map_err(|error| Problem::bad(format!("the body can't be understood: {error}")))?;
    Ok(seen.unknown)
}

struct Seen {
    route: Route,
    unknown: Vec<String>,
    refused: Option<(&'static str, &'static str)>,
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let Some(field) = FIELDS.iter().find(|field| field.name == name) else {
                map.next_value::<IgnoredAny>()?;
                if self.unknown.len() < MOST_NAMES {
                    self.unknown.push(shown(&name));
                }
                continue;
            };
            match field.elsewhere {
                Elsewhere::Refused { because, unless } if !field.done.contains(&self.route) => {
                    let value = map.next_value_seed(Small { depth: 3 })?;
                    if !value.is_some_and(|value| is_no_op(&value, unless)) {
                        self.refused.get_or_insert((field.name, because));
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A client's name as it may stand in a header and in a log.
pub(crate) fn shown(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-[]".contains(c) { c } else { '?' };
    name.chars().take(LONGEST_NAME).map(plain).collect()
}

fn is_no_op(value: &Value, unless: &[&str]) -> bool {
    let same = |known: &Value| match (known.as_f64(), value.as_f64()) {
        (Some(known), Some(value)) => known == value,
        _ => known == value,
    };
    value.is_null() || unless.iter().any(|known| serde_json::from_str(known).is_ok_and(|known| same(&known)))
}

/// Reads a value as far as it is small; a larger one is passed over.
struct Small {
    depth: usize,
}

/// Items of a value that is small.
const MOST_ITEMS: usize = 4;

impl<'de> DeserializeSeed<'de> for Small {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        match self.depth {
            0 => deserializer.deserialize_ignored_any(IgnoredAny).map(|_| None),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Small {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok((value.len() <= LONGEST_NAME).then(|| value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut small = Some(Vec::new());
        while let Some(item) = items.next_element_seed(Self { depth: self.depth - 1 })? {
            small = small.zip(item).map(|(mut list, item)| {
                list.push(item);
                list
            });
            small = small.filter(|list| list.len() <= MOST_ITEMS);
        }
        Ok(small.map(Value::Array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut small = Some(serde_json::Map::new());
        while let Some(name) = map.next_key::<String>()? {
            let item = map.next_value_seed(Self { depth: self.depth - 1 })?;
            small = small.zip(item).map(|(mut all, item)| {
                all.insert(name, item);
                all
            });
            small = small.filter(|all| all.len() <= MOST_ITEMS);
        }
        Ok(small.map(Value::Object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{ChatRequest, CompletionRequest, EmbeddingRequest, LlamaRequest, ResponseRequest};
    use crate::routes::{DetokenizeRequest, TemplateRequest, TokenizeRequest};
    use serde_json::json;
    use std::collections::BTreeSet;
    use utoipa::PartialSchema;

    /// The names that a schema says an object may have.
    fn names(schema: &Value, into: &mut BTreeSet<String>) {
        into.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
        schema["allOf"].as_array().into_iter().flatten().for_each(|part| names(part, into));
    }

    fn of<T: Fields + PartialSchema>() -> (Route, BTreeSet<String>) {
        let mut all = BTreeSet::new();
        names(&serde_json::to_value(T::schema()).unwrap(), &mut all);
        (T::ROUTE, all)
    }

    #[test]
    fn the_table_says_done_of_what_the_requests_have_and_of_nothing_else() {
        let requests = [
            of::<ChatRequest>(),
            of::<CompletionRequest>(),
            of::<LlamaRequest>(),
            of::<ResponseRequest>(),
            of::<EmbeddingRequest>(),
            of::<TokenizeRequest>(),
            of::<DetokenizeRequest>(),
            of::<TemplateRequest>(),
        ];
        assert!(ALL.iter().all(|route| requests.iter().any(|(known, _)| known == route)));
        for (route, names) in requests {
            let done = FIELDS.iter().filter(|field| field.done.contains(&route));
            let done: BTreeSet<String> = done.map(|field| field.name.to_owned()).collect();
            assert_eq!(done, names, "{route:?}");
        }
        let once: BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(once.len(), FIELDS.len(), "a field stands in the table twice");
    }

    #[test]
    fn a_field_that_is_refused_is_named_with_its_reason_unless_it_asks_for_nothing() {
        let body = |name: &str, value: &Value| json!({ name: value }).to_string().into_bytes();
        for field in FIELDS {
            let Elsewhere::Refused { because, unless } = field.elsewhere else { continue };
            for &route in ALL.iter().filter(|route| !field.done.contains(route)) {
                for value in
                    [json!("something"), json!({ "a": [1, { "b": 2 }] }), json!(["a", "b", 3]), json!(7.5)]
                {
                    let problem = check(&body(field.name, &value), route).unwrap_err();
                    let message = format!("{} is not supported: {because}", field.name);
                    assert_eq!((problem.param.as_deref(), problem.message), (Some(field.name), message));
                }
                for value in unless.iter().copied().chain(["null"]) {
                    let value = serde_json::from_str(value).unwrap();
                    assert_eq!(
                        check(&body(field.name, &value), route),
                        Ok(Vec::new()),
                        "{} {value}",
                        field.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_field_that_nobody_knows_is_told_in_plain_characters_and_not_for_ever() {
        let ignored = |body: &str| check(body.as_bytes(), Chat).unwrap();
        assert_eq!(ignored(r#"{"tempature": 1, "seed": 2, "user": "x"}"#), ["tempature"]);
        assert_eq!(ignored(r#"{"a\r\nset-cookie: x": 1, "温": [[[[1]]]]}"#), ["a??set-cookie??x", "?"]);
        let many: Vec<String> = (0..99).map(|i| format!("\"{}{i}\": {{}}", "x".repeat(200))).collect();
        let ignored = ignored(&format!("{{{}}}", many.join(",")));
        assert!(ignored.len() == MOST_NAMES && ignored.iter().all(|name| name.len() == LONGEST_NAME));
        // A number is the same however it is written, and a refused value may be as large as it likes.
        assert!(check(br#"{"typical_p": 1.0, "mirostat": 0.0}"#, Llama).is_ok());
        let deep = format!(r#"{{"tools": {}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(check(deep.as_bytes(), Llama).unwrap_err().param.as_deref(), Some("tools"));
    }
}
