//! The formats that models know, and a conversation in each of them.

use crate::error::Result;
use crate::{guarded, template};
use minigpt_data::{QaEncoder, Role, Turn};
use minigpt_formats::ChatTemplate;
use minigpt_tokenizer::{SEP, Tokenizer};
use minijinja::context;
use std::collections::BTreeMap;

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
                let encoder = tokenizer.and_then(|tokenizer| QaEncoder::new(tokenizer).ok());
                let single = encoder.is_some_and(|encoder| template.source == encoder.template(false));
                if single { Self::Qa } else { Self::Template(template) }
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
        match self {
            Self::Qa => Ok(QaEncoder::new(tokenizer)?.prompt(turns)?),
            Self::Template(template) => guarded::encode(tokenizer, template, turns),
            Self::Plain => Ok(tokenizer.encode(&joined(turns))?),
        }
    }

    /// The same as text, for people to look at: in it the names of special tokens that somebody typed look like those tokens.
    pub fn render(&self, tokenizer: &Tokenizer, turns: &[Turn]) -> Result<String> {
        match self {
            Self::Qa => {
                let separator = QaEncoder::new(tokenizer)?.separator();
                let separator = tokenizer.token(separator).unwrap_or_default();
                Ok(turns.iter().map(|turn| format!("{}{separator}", turn.text)).collect())
            }
            Self::Template(template) => render(template, turns),
            Self::Plain => Ok(joined(turns)),
        }
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

    /// In words.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Qa => "question <sep> answer <sep>, as the model was trained",
            Self::Template(_) => "the model's own chat template",
            Self::Plain => "plain: the model goes on with your text",
        }
    }
}

fn joined(turns: &[Turn]) -> String {
    let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
    texts.join("\n")
}

/// What templates and files call a role.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// Turns as a chat template writes them, up to where the model is to speak.
pub(crate) fn render(template: &ChatTemplate, turns: &[Turn]) -> Result<String> {
    let message = |turn: &Turn| context! { role => role_name(turn.role), content => turn.text.clone() };
    let messages: Vec<_> = turns.iter().map(message).collect();
    let tokens = minijinja::Value::from(template.tokens.iter().cloned().collect::<BTreeMap<_, _>>());
    let values = context! { messages, add_generation_prompt => true, ..tokens };
    template::render(&template.source, &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exports_say_of_single_questions_is_what_training_says() {
        let record = minigpt_data::Record::pair("abcd", "efgh");
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
            render(&ChatTemplate { source: source.to_owned(), tokens: tokens.to_vec() }, &turns)
        };
        assert_eq!(render(source, &tokens).unwrap(), want);
        assert!(render("{% for %}", &[]).is_err());
        assert!(render("{{ raise_exception('no system turn') }}", &[]).is_err());
    }
}
