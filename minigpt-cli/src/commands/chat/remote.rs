//! A chat with a model on a server: anything that speaks OpenAI's interface.

use super::STOP;
use super::editor::{Terminal, Typed};
use super::lines::{Lines, Said};
use crate::input::{self, MOST_TEXT};
use crate::language::messages::chat as message;
use crate::sampling::SamplingArgs;
use crate::{language, output};
use anyhow::{Context, Result, bail, ensure};
use minigpt_charts::bytes;
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, IsTerminal};
use std::sync::atomic::Ordering;
use std::time::Duration;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

/// The largest event, and the largest answer that is no stream.
const LARGEST: u64 = 16 << 20;

/// A conversation with a model elsewhere.
pub struct Remote {
    agent: Agent,
    base: String,
    key: Option<String>,
    model: String,
    /// What is asked for with every message.
    settings: Map<String, Value>,
    messages: Vec<Value>,
}

impl Remote {
    /// Finds the server and a model on it: the one that was named, or its first.
    pub fn open(
        url: &str,
        key: Option<String>,
        model: Option<String>,
        sampling: &SamplingArgs,
    ) -> Result<Self> {
        let base = url.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let base = if base.ends_with("/v1") { base } else { format!("{base}/v1") };
        let key = key.or_else(|| std::env::var("MINIGPT_API_KEY").ok().filter(|key| !key.is_empty()));
        let agent = Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(10)))
            .http_status_as_error(false)
            .build()
            .new_agent();
        let mut remote = Self {
            agent,
            base,
            key,
            model: String::new(),
            settings: sampling.as_openai(),
            messages: Vec::new(),
        };
        remote.model = match model {
            Some(model) => model,
            None => remote.first_model()?,
        };
        Ok(remote)
    }

    fn first_model(&self) -> Result<String> {
        let url = format!("{}/models", self.base);
        let mut request = self.agent.get(&url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = self.checked(request.call(), &url)?;
        let mut text = String::new();
        std::io::Read::read_to_string(
            &mut answer.into_body().into_with_config().limit(LARGEST).reader(),
            &mut text,
        )?;
        let list: Value =
            serde_json::from_str(&text).with_context(|| message::NotAModelList { url: &url }.to_string())?;
        let first = list["data"][0]["id"].as_str();
        Ok(first.with_context(|| message::NoModels { url: &url }.to_string())?.to_owned())
    }

    /// An answer that is none of an error, whose words are told otherwise.
    fn checked(&self, answer: Result<Response<Body>, ureq::Error>, url: &str) -> Result<Response<Body>> {
        let answer = answer.with_context(|| message::Unreachable { url: &url }.to_string())?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let text = answer.into_body().into_with_config().limit(LARGEST).read_to_string().unwrap_or_default();
        let message = serde_json::from_str::<Value>(&text).ok();
        let message = message.as_ref().and_then(|json| json["error"]["message"].as_str());
        match message {
            _ if status == StatusCode::UNAUTHORIZED => {
                bail!("{}", message::KeyRefused { url: &url, status: &status })
            }
            Some(message) => bail!("{url}: {status}: {message}"),
            None => bail!("{url}: {status}"),
        }
    }

    /// Talks until somebody leaves.
    pub fn run(&mut self) -> Result<()> {
        output::note(message::RemoteStarted { model: &self.model, url: &self.base });
        if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
            return self.answer_lines();
        }
        output::note(message::AskAway);
        let mut terminal = Terminal::open()?;
        loop {
            match terminal.read()? {
                Typed::Said(said) => {
                    if !self.take(&said)? {
                        return Ok(());
                    }
                }
                Typed::Interrupted => output::note(message::HowToLeave),
                Typed::End => return Ok(()),
            }
        }
    }

    /// Without a terminal every line is a message, and what goes wrong with one is an error.
    fn answer_lines(&mut self) -> Result<()> {
        let mut lines = Lines::default();
        let mut stdin = std::io::stdin().lock();
        while let Some(line) = input::line(&mut stdin, MOST_TEXT)? {
            let line = std::str::from_utf8(&line).context(message::StdinNotText)?;
            let said = lines.push(line.trim_end_matches('\r'));
            ensure!(
                lines.len() as u64 <= MOST_TEXT,
                "{}",
                message::MessageTooLong { most: &bytes(MOST_TEXT) }
            );
            match said {
                Some(Said::Message(message)) => self.answer(&message)?,
                Some(command) if !self.take(&command)? => return Ok(()),
                _ => {}
            }
        }
        match lines.finish() {
            Some(Said::Message(message)) => self.answer(&message),
            Some(command) => self.take(&command).map(|_| ()),
            None => Ok(()),
        }
    }

    /// One message or command; whether the chat goes on.
    fn take(&mut self, said: &Said) -> Result<bool> {
        match said {
            Said::Message(message) => {
                if let Err(error) = self.answer(message) {
                    output::note(language::error(&error));
                }
            }
            Said::Command(command) => match command.trim() {
                "quit" | "exit" | "bye" => return Ok(false),
                "reset" | "clear" => {
                    self.messages.clear();
                    output::note(message::HistoryCleared);
                }
                "help" | "?" => output::note(message::RemoteHelp),
                other => {
                    output::note(message::UnknownRemoteCommand { name: &other, help: &message::RemoteHelp });
                }
            },
        }
        Ok(true)
    }

    /// Answers a message, piece by piece. An answer that fails takes its question back.
    fn answer(&mut self, message: &str) -> Result<()> {
        self.messages.push(json!({ "role": "user", "content": message }));
        match self.write_answer() {
            Ok(answer) => self.messages.push(json!({ "role": "assistant", "content": answer })),
            Err(error) => {
                self.messages.pop();
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_answer(&self) -> Result<String> {
        STOP.store(false, Ordering::Relaxed);
        let mut body = json!({ "model": self.model, "messages": self.messages, "stream": true });
        if let Some(body) = body.as_object_mut() {
            body.extend(self.settings.clone());
        }
        let url = format!("{}/chat/completions", self.base);
        let mut request = self.agent.post(&url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = self.checked(request.send(body.to_string()), &url)?;
        if let Some(unknown) = unknown(&answer) {
            output::note(message::MissingFromVocabulary { unknown: &unknown });
        }
        let mut lines = BufReader::new(answer.into_body().into_reader());
        let mut said = String::new();
        while let Some(event) = next_event(&mut lines)? {
            if let Some(message) = event["error"]["message"].as_str() {
                output::written("\n")?;
                bail!("{message}");
            }
            if let Some(piece) = event["choices"][0]["delta"]["content"].as_str() {
                output::written(piece)?;
                said.push_str(piece);
            }
            if STOP.load(Ordering::Relaxed) {
                // Dropped with the connection, the server computes no more.
                break;
            }
        }
        output::written("\n")?;
        if STOP.load(Ordering::Relaxed) {
            output::note("(stopped)");
        }
        Ok(said)
    }
}

/// The characters of the conversation that the model's vocabulary lacks, as a server of ours names them.
fn unknown(answer: &Response<Body>) -> Option<String> {
    let header = answer.headers().get("x-minigpt-unknown")?.to_str().ok()?;
    let characters = header.split(", ").filter_map(from_header);
    Some(characters.map(|character| format!("{character:?}")).collect::<Vec<_>>().join(", "))
}

/// A percent-encoded character.
fn from_header(encoded: &str) -> Option<char> {
    let bytes = match encoded.strip_prefix('%') {
        None => encoded.as_bytes().to_vec(),
        Some(hex) => hex.split('%').map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<_>>()?,
    };
    let mut characters = std::str::from_utf8(&bytes).ok()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

/// The next event of a stream; none at its end.
fn next_event(lines: &mut impl BufRead) -> Result<Option<Value>> {
    loop {
        let mut line = Vec::new();
        let read = std::io::Read::take(&mut *lines, LARGEST).read_until(b'\n', &mut line);
        if read.context(message::AnswerEndedEarly)? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8(line).context(message::AnswerNotText)?;
        match line.trim_end().strip_prefix("data:").map(str::trim_start) {
            None => {}
            Some("[DONE]") => return Ok(None),
            Some(event) => {
                let event = serde_json::from_str(event);
                return Ok(Some(event.context(message::NotOpenai)?));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_read_from_a_header() {
        assert_eq!(
            ["a", "%E5%96%9C", "%25", "%0A"].map(from_header),
            [Some('a'), Some('喜'), Some('%'), Some('\n')]
        );
        assert_eq!(["", "ab", "%E5", "%zz", "%E5%96%9C%E5%96%9C"].map(from_header), [None; 5]);
    }

    #[test]
    fn events_are_found_among_other_lines() {
        let mut stream =
            &b": hello\nevent: x\ndata: {\"a\": 1}\r\n\r\ndata:{\"a\":2}\n\ndata: [DONE]\n\ndata: {}\n"[..];
        let mut next = || next_event(&mut stream).unwrap();
        assert_eq!((next(), next(), next()), (Some(json!({ "a": 1 })), Some(json!({ "a": 2 })), None));
        assert!(next_event(&mut &b"data: <html>\n"[..]).is_err());
        assert!(next_event(&mut &b"data: \xff\n"[..]).is_err());
    }
}
