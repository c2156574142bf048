//! The formats that models know, and a conversation in each of them.

use crate::error::Result;
use crate::tools::{AnswerPart, ToolCall, ToolForm, ToolParser};
use crate::transcript::{Message, Transcript, TranscriptEnd};
use crate::{guarded, template};
use minigpt_data::{ExampleFormat, QaEncoder, Record, Role, Turn};
use minigpt_formats::ChatTemplate;
use minigpt_tokenizer::{SEP, Tokenizer};
use minijinja::Value;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// How a model expects to be spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// `question <sep> answer <sep>`, as question/answer data is trained.
    Qa,
    /// The chat template that came with the model.
    Template(ChatTemplate),
    /// The text so far, and nothing else: the model goes on with it.
    Plain,
}

impl Format {
    /// The format of a model: its chat template if it has one, questions if its tokenizer knows `<sep>`, otherwise plain.
    pub fn choose(template: Option<ChatTemplate>, tokenizer: Option<&Tokenizer>) -> Self {
        match template {
            Some(template) => {
                // What this program trains on single questions needs no template to be spoken to.
                if is_of_questions(&template, tokenizer, false) { Self::Qa } else { Self::Template(template) }
            }
            None if tokenizer.is_some_and(|tokenizer| tokenizer.special_id(SEP).is_some()) => Self::Qa,
            None => Self::Plain,
        }
    }

    /// Whether a model of this format is told what was said before the last turn. A question/answer model has learnt from
    /// single questions.
    pub fn remembers(&self) -> bool {
        *self != Self::Qa
    }

    /// The ids of these turns, up to where the model is to speak.
    pub fn encode(&self, tokenizer: &Tokenizer, turns: &[Turn]) -> Result<Vec<u32>> {
        self.encode_conversation(tokenizer, &turns.into())
    }

    /// How a model with this template learns from examples: as it is spoken to, each answer ended by one of these ids. None for
    /// a template that only says what question/answer data looks like anyway.
    pub fn of_examples(
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        ends: Vec<u32>,
    ) -> Option<ExampleFormat> {
        if [false, true].iter().any(|&all| is_of_questions(template, Some(tokenizer), all)) {
            return None;
        }
        let (template, tokenizer, stops) = (template.clone(), tokenizer.clone(), ends.clone());
        let encode = move |record: &Record| {
            guarded::encode_example(&tokenizer, &template, &record.turns, &stops).map_err(Into::into)
        };
        Some(ExampleFormat { encode: Arc::new(encode), ends })
    }

    /// The same as text, for people to look at: in it the names of special tokens that somebody typed look like those tokens.
    pub fn render(&self, tokenizer: &Tokenizer, turns: &[Turn]) -> Result<String> {
        self.render_conversation(tokenizer, &turns.into())
    }

    /// The ids of a conversation, up to where its end says.
    pub fn encode_conversation(&self, tokenizer: &Tokenizer, conversation: &Transcript) -> Result<Vec<u32>> {
        let begun = conversation.answer_prefix().unwrap_or_default();
        match self {
            Self::Qa => {
                let mut ids = QaEncoder::new(tokenizer)?.prompt(&conversation.turns())?;
                ids.extend(tokenizer.encode(begun)?);
                Ok(ids)
            }
            Self::Template(template) => guarded::encode(tokenizer, template, conversation),
            Self::Plain => Ok(plain(tokenizer, &joined(conversation))?),
        }
    }

    /// The same as text, as [`Self::render`].
    pub fn render_conversation(&self, tokenizer: &Tokenizer, conversation: &Transcript) -> Result<String> {
        match self {
            Self::Qa => {
                let separator = QaEncoder::new(tokenizer)?.separator();
                let separator = tokenizer.token(separator).unwrap_or_default();
                let turns =
                    conversation.messages.iter().map(|message| format!("{}{separator}", message.text));
                Ok(turns.chain(conversation.answer_prefix().map(str::to_owned)).collect())
            }
            Self::Template(template) => render(template, conversation),
            Self::Plain => Ok(joined(conversation)),
        }
    }

    /// The names that the model's chat template mentions, such as `tools`: nothing else that it is given can change the prompt.
    pub fn names(&self) -> HashSet<String> {
        match self {
            Self::Template(template) => template::names(&template.source),
            Self::Qa | Self::Plain => HashSet::new(),
        }
    }

    /// How the model writes that it calls a tool: the form in which the chat template writes a known call, if a [`ToolParser`]
    /// reads that call back. None if the template has no tools, or writes calls in another form.
    pub fn tool_form(&self) -> Option<ToolForm> {
        let Self::Template(template) = self else { return None };
        if !self.names().contains("tools") {
            return None;
        }
        [ToolForm::Tagged, ToolForm::Object].into_iter().find(|&form| reads_back(template, form))
    }

    /// The ids that make the model answer a text in this format. None where nothing is to be wrapped: the format is plain, or
    /// whoever wrote the text names special tokens and so has wrapped it already.
    pub fn wrap(&self, tokenizer: &Tokenizer, text: &str) -> Result<Option<Vec<u32>>> {
        let named = |name: &str| text.contains(name);
        if *self == Self::Plain || text.is_empty() || tokenizer.special_names().any(named) {
            return Ok(None);
        }
        let turn = Turn { role: Role::User, text: text.to_owned() };
        self.encode(tokenizer, &[turn]).map(Some)
    }

    /// A short description.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Qa => "question <sep> answer <sep>, as the model was trained",
            Self::Template(_) => "the model's own chat template",
            Self::Plain => "plain: the model continues your text",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.describe())
    }
}

/// Whether a template is the one that training on questions (or on whole conversations) writes.
fn is_of_questions(template: &ChatTemplate, tokenizer: Option<&Tokenizer>, conversations: bool) -> bool {
    let encoder = tokenizer.and_then(|tokenizer| QaEncoder::new(tokenizer).ok());
    encoder.is_some_and(|encoder| template.source == encoder.template(conversations))
}

/// Whether a call that a template writes into a conversation is found in this form, and the template shows the tool itself.
fn reads_back(template: &ChatTemplate, form: ToolForm) -> bool {
    const NAME: &str = "count_words";
    let arguments = json!({ "language": "de", "most": 2 });
    let message = |role: Role, more: Json| Message {
        role: role_name(role).to_owned(),
        text: if role == Role::User { "Hi".to_owned() } else { String::new() },
        more: more.as_object().cloned().unwrap_or_default(),
    };
    let tool = json!({ "type": "function", "function": {
        "name": NAME,
        "parameters": { "type": "object", "properties": { "language": { "type": "string" } } },
    } });
    let call = json!({ "id": "call12345", "type": "function", "function": { "name": NAME, "arguments": arguments } });
    let asked = Transcript {
        messages: vec![message(Role::User, Json::Null)],
        tools: vec![tool],
        end: TranscriptEnd::Nothing,
        ..Transcript::default()
    };
    let mut answered = asked.clone();
    answered.messages.push(message(Role::Assistant, json!({ "tool_calls": [call] })));
    let prompted = Transcript { end: TranscriptEnd::Answer, ..asked.clone() };
    let [Ok(asked), Ok(prompted), Ok(answered)] =
        [&asked, &prompted, &answered].map(|conversation| render(template, conversation))
    else {
        return false;
    };
    let Some(answer) = answered.strip_prefix(&asked).filter(|_| asked.contains(NAME)) else { return false };
    let header = prompted.strip_prefix(&asked).unwrap_or_default();
    let answer = answer.strip_prefix(header).unwrap_or(answer);
    let mut parser = ToolParser::new(form, vec![NAME.to_owned()]);
    let mut parts = parser.push(match form {
        ToolForm::Tagged => answer,
        // The template ends the answer with tokens that are not part of it.
        ToolForm::Object => answer.rfind('}').map_or(answer, |end| &answer[..=end]),
    });
    parts.extend(parser.finish());
    let calls: Vec<ToolCall> = parts
        .into_iter()
        .filter_map(|part| match part {
            AnswerPart::Call(call) => Some(call),
            AnswerPart::Text(_) => None,
        })
        .collect();
    matches!(&calls[..], [call] if call.name == NAME
        && serde_json::from_str::<Json>(&call.arguments).is_ok_and(|given| given == arguments))
}

fn joined(conversation: &Transcript) -> String {
    let messages = conversation.messages.iter().map(|message| message.text.as_str());
    messages.chain(conversation.answer_prefix()).collect::<Vec<_>>().join("\n")
}

/// The ids of a text behind what the tokenizer puts before every text, such as `<s>`. Names of special tokens in it are text.
fn plain(tokenizer: &Tokenizer, text: &str) -> minigpt_tokenizer::Result<Vec<u32>> {
    let mut ids = tokenizer.encode_with_special("")?;
    ids.extend(tokenizer.encode(text)?);
    Ok(ids)
}

/// What templates and files call a role.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// A conversation as a chat template writes it, up to where its end says.
pub(crate) fn render(template: &ChatTemplate, conversation: &Transcript) -> Result<String> {
    let message = |message: &Message| {
        let own = [("role", &message.role), ("content", &message.text)];
        let own = own.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
        let more = message.more.iter().map(|(name, json)| (name.clone(), value(json)));
        Value::from_pairs(own.into_iter().chain(more))
    };
    let list = |items: Vec<Value>| if items.is_empty() { Value::from(()) } else { Value::from(items) };
    let given = conversation.values.iter().map(|(name, json)| (name.clone(), value(json)));
    let tokens = template.tokens.iter().map(|(name, token)| (name.clone(), Value::from(token.as_str())));
    // As transformers has it: what is not given is none, not undefined.
    let own = [
        ("messages", Value::from(conversation.messages.iter().map(message).collect::<Vec<_>>())),
        ("tools", list(conversation.tools.iter().map(value).collect())),
        ("documents", Value::from(())),
        ("add_generation_prompt", Value::from(conversation.end != TranscriptEnd::Nothing)),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    // Of two values of one name the last is taken.
    let values: BTreeMap<String, Value> = tokens.chain(given).chain(own).collect();
    let text = template::render(&template.source, &Value::from_pairs(values))?;
    Ok(text + conversation.answer_prefix().unwrap_or_default())
}

/// JSON as a template sees it.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(bool) => Value::from(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or(0.0)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(value).collect::<Vec<_>>()),
        Json::Object(object) => {
            Value::from_pairs(object.iter().map(|(name, json)| (name.clone(), value(json))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exports_say_of_single_questions_is_what_training_says() {
        let record = Record::pair("abcd", "efgh");
        let tokenizer = minigpt_data::TokenizerChoice::Char.for_records([&record]).unwrap();
        let exported = ChatTemplate::of_questions(&tokenizer).unwrap();
        assert_eq!(exported.source, QaEncoder::new(&tokenizer).unwrap().template(false));
        assert_eq!(Format::choose(Some(exported), Some(&tokenizer)), Format::Qa);
        let turns = [Turn { role: Role::User, text: "ab".into() }];
        assert_eq!(Format::Qa.render(&tokenizer, &turns).unwrap(), "ab<sep>");
        assert_eq!(
            Format::Qa.encode(&tokenizer, &turns).unwrap(),
            tokenizer.encode_with_special("ab<sep>").unwrap()
        );
    }

    #[test]
    fn templates_are_hugging_faces() {
        // What ChatML looks like in most models of the hub.
        let source = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] \
                      + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' \
                      }}{% endif %}{{ eos_token.strip() }}";
        let turns = [Turn { role: Role::User, text: "Hi".into() }];
        let tokens = [("eos_token".to_owned(), "!".to_owned())];
        let want = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n!";
        let render = |source: &str, tokens: &[(String, String)]| {
            let template = ChatTemplate { source: source.to_owned(), tokens: tokens.to_vec() };
            render(&template, &turns[..].into())
        };
        assert_eq!(render(source, &tokens).unwrap(), want);
        assert!(render("{% for %}", &[]).is_err());
        assert!(render("{{ raise_exception('no system turn') }}", &[]).is_err());
    }

    fn template(source: &str) -> Format {
        Format::Template(ChatTemplate { source: source.to_owned(), tokens: Vec::new() })
    }

    fn tokenizer() -> Tokenizer {
        let names = ["<|im_start|>", "<|im_end|>"];
        let characters = (' '..='~').chain(['\n', '你']);
        Tokenizer::Char(minigpt_tokenizer::CharTokenizer::from_text(&names, characters).unwrap())
    }

    const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}\
                          {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

    #[test]
    fn a_prompt_ends_where_it_is_told_to() {
        let (tokenizer, format) = (tokenizer(), template(CHATML));
        let messages = vec![Message { role: "user".into(), text: "Hi".into(), ..Message::default() }];
        let with_end = |end| Transcript { messages: messages.clone(), end, ..Transcript::default() };
        let render = |end| format.render_conversation(&tokenizer, &with_end(end)).unwrap();
        let before = "<|im_start|>user\nHi<|im_end|>\n";
        assert_eq!(render(TranscriptEnd::Nothing), before);
        assert_eq!(render(TranscriptEnd::Answer), format!("{before}<|im_start|>assistant\n"));
        // The beginning of an answer stays as it is, and what it names is text.
        let begun = "  Sure <|im_end|> ";
        assert_eq!(
            render(TranscriptEnd::Within(begun.into())),
            format!("{before}<|im_start|>assistant\n{begun}")
        );
        let answer = format.encode_conversation(&tokenizer, &with_end(TranscriptEnd::Answer)).unwrap();
        let within =
            format.encode_conversation(&tokenizer, &with_end(TranscriptEnd::Within(begun.into()))).unwrap();
        assert_eq!(within, [answer, tokenizer.encode(begun).unwrap()].concat());
    }

    #[test]
    fn a_template_sees_tools_and_all_fields_of_messages_and_writes_them_as_python_does() {
        let source = "{% if tools is not none %}{% for t in tools %}{{ t | tojson }}{{ t.function | tojson(indent=2) }}\
                      {% endfor %}{% endif %}{% for m in messages %}{{ m.role }}:{% for c in m.tool_calls %}\
                      {{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ m.name }}{% endfor %}{{ extra }}";
        let json = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        let more = json(
            r#"{"tool_calls": [{"function": {"name": "f", "arguments": {"z": 1.0, "a": ["é", null, true]}}}]}"#,
        );
        let message = Message {
            role: "assistant".into(),
            more: more.as_object().unwrap().clone(),
            ..Message::default()
        };
        let conversation = Transcript {
            messages: vec![message],
            tools: vec![json(
                r#"{"type": "function", "function": {"name": "f", "description": "<b>\n\"x\""}}"#,
            )],
            values: json(r#"{"extra": "!"}"#).as_object().unwrap().clone(),
            end: TranscriptEnd::Answer,
        };
        let want = "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"<b>\\n\\\"x\\\"\"}}\
                    {\n  \"name\": \"f\",\n  \"description\": \"<b>\\n\\\"x\\\"\"\n}\
                    assistant:f{\"z\": 1.0, \"a\": [\"é\", null, true]}!";
        assert_eq!(template(source).render_conversation(&tokenizer(), &conversation).unwrap(), want);
        // A name of a special token in a tool is text.
        let hostile = Transcript {
            tools: vec![json(r#"{"function": {"name": "<|im_end|>", "<|im_start|>": 1}}"#)],
            ..Transcript::default()
        };
        let tokenizer = tokenizer();
        let ids = template(source).encode_conversation(&tokenizer, &hostile).unwrap();
        let special = ["<|im_start|>", "<|im_end|>"].map(|name| tokenizer.special_id(name).unwrap());
        assert!(!ids.iter().any(|id| special.contains(id)));
        assert_eq!(
            template(source).render_conversation(&tokenizer, &Transcript::default()).unwrap(),
            "",
            "no tools are none"
        );
    }

    /// A template that writes a call as `call` does, behind a description of the tools.
    fn with_calls(call: &str) -> Format {
        template(&format!(
            "{{% if tools %}}{{{{ tools | tojson }}}} <tool_call> \"parameters\" <|python_tag|>{{% endif %}}\
             {{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{{{ m.content }}}}\
             {{% for c in m.tool_calls or [] %}}{call}{{% endfor %}}<|im_end|>\n{{% endfor %}}\
             {{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
        ))
    }

    #[test]
    fn tools_are_taken_where_a_call_that_the_template_writes_is_read_back() {
        let arguments = "{{ c.function.arguments | tojson }}";
        let object =
            |name: &str| format!("{{\"name\": \"{{{{ c.function.name }}}}\", \"{name}\": {arguments}}}");
        let (tagged, llama) = (object("arguments"), object("parameters"));
        for (call, form) in [
            (format!("<tool_call>\n{tagged}\n</tool_call>"), Some(ToolForm::Tagged)),
            (llama.clone(), Some(ToolForm::Object)),
            (format!("<|python_tag|>{llama}"), Some(ToolForm::Object)),
            // GLM's, Qwen3-Coder's, Functionary's, Mistral's, and a template that leaves calls out.
            (
                "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\
                 <arg_value>{{ v }}</arg_value>{% endfor %}</tool_call>"
                    .to_owned(),
                None,
            ),
            (
                "<tool_call>\n<function={{ c.function.name }}>\n<parameter=a>1</parameter></function></tool_call>".to_owned(),
                None,
            ),
            (format!("<function={{{{ c.function.name }}}}>{arguments}</function>"), None),
            (format!("[TOOL_CALLS][{tagged}]"), None),
            (format!("<tool_call>{{\"arguments\": {arguments}}}</tool_call>"), None),
            (String::new(), None),
        ] {
            assert_eq!(with_calls(&call).tool_form(), form, "{call}");
        }
        let Format::Template(shown) = with_calls(&tagged) else { unreachable!() };
        assert_eq!(
            template(&shown.source.replace("tools", "no")).tool_form(),
            None,
            "it does not show tools"
        );
        assert_eq!(Format::Plain.tool_form(), None);
        let mentions = |source: &str| template(source).names().contains("x");
        assert!(mentions("{{ messages['x'] }}") && mentions("{{ m.x }}") && !mentions("{# x #}x"));
    }

    #[test]
    fn a_chat_without_a_template_begins_as_every_text_of_the_tokenizer_does() {
        let json = r#"{"version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
            "model": {"type": "WordLevel", "vocab": {"<s>": 0, "a": 1, "<unk>": 2}, "unk_token": "<unk>"}}"#;
        let path = std::env::temp_dir().join(format!("minigpt-chat-bos-{}.json", std::process::id()));
        std::fs::write(&path, json).unwrap();
        let tokenizer = Tokenizer::open(&path);
        std::fs::remove_file(&path).unwrap();
        let tokenizer = tokenizer.unwrap();
        let said = |text: &str| {
            let turns = [Turn { role: Role::User, text: text.into() }];
            Format::Plain.encode(&tokenizer, &turns).unwrap()
        };
        assert_eq!(said("a"), [0, 1]);
    }
}
