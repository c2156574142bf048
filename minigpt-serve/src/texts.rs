//! The texts that the engine generates for a request, as pieces that can be shown.

use crate::job::Job;
use crate::problem::Problem;
use crate::record::Account;
use crate::routes::{FinishWord, UsageAnswer};
use crate::served_model::ServedModel;
use crate::settings::Settings;
use crate::writing::{Piece, Writing};
use minigpt_generate::{Completion, EngineEvent, StoppedBy, Usage};
use std::sync::Arc;
use std::time::Instant;

/// All texts of a request.
pub(crate) struct Texts {
    pub model: Arc<ServedModel>,
    job: Job,
    rows: Vec<Writing>,
    /// Texts of each prompt.
    n: usize,
    /// The prompts that are said again before the texts.
    echoed: Vec<Vec<u32>>,
    /// Whether pieces without text matter, because their tokens do.
    tokens_matter: bool,
    /// Whether the token that ends a text is among its tokens.
    pub keeps_end: bool,
    /// What all of them cost.
    pub usage: UsageAnswer,
    /// When the prompt of each had been read.
    read: Vec<Option<Instant>>,
}

/// What is new in one of them.
#[derive(Debug)]
pub(crate) struct News {
    /// Which.
    pub index: usize,
    pub piece: Piece,
    /// Why it ends with this, if it does.
    pub end: Option<End>,
}

/// A text that has ended.
#[derive(Debug)]
pub(crate) struct WholeText {
    pub piece: Piece,
    pub end: End,
}

/// The end of a text.
#[derive(Debug)]
pub(crate) struct End {
    pub reason: FinishWord,
    pub stop: Option<StoppedBy>,
    pub usage: Usage,
    /// When its prompt had been read, which is when its first token came.
    pub read: Option<Instant>,
    /// When it ended.
    pub ended: Instant,
}

impl Texts {
    /// Begins to write. With `echo` the prompts are said again; with `tokens_matter` pieces may have tokens without text.
    pub fn start(
        model: &Arc<ServedModel>,
        account: &Arc<Account>,
        settings: &Settings,
        prompts: Vec<Vec<u32>>,
        echo: bool,
        tokens_matter: bool,
    ) -> Result<Self, Problem> {
        account.note(|record| record.ignored.extend(settings.ignored.iter().map(|&name| name.to_owned())));
        let echoed = if echo { prompts.clone() } else { Vec::new() };
        let job = Job::start(model, account, settings.rows(prompts)?)?;
        let rows: Vec<Writing> = (0..job.rows()).map(|_| Writing::new(model)).collect();
        let read = vec![None; rows.len()];
        let (model, usage) = (Arc::clone(model), UsageAnswer::default());
        Ok(Self { model, job, rows, n: settings.n, echoed, tokens_matter, keeps_end: false, usage, read })
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The next piece of one of the texts; none when all have ended.
    pub async fn next(&mut self) -> Result<Option<News>, Problem> {
        while let Some((index, at, event)) = self.job.next().await? {
            let (piece, end) = self.take(index, at, event)?;
            let shows = !piece.text.is_empty() || (self.tokens_matter && !piece.tokens.is_empty());
            if shows || end.is_some() {
                return Ok(Some(News { index, piece, end }));
            }
        }
        Ok(None)
    }

    /// All texts, in order, once all of them have ended.
    pub async fn whole(&mut self) -> Result<Vec<WholeText>, Problem> {
        let mut pieces: Vec<Piece> = (0..self.len()).map(|_| Piece::default()).collect();
        let mut ends: Vec<Option<End>> = (0..self.len()).map(|_| None).collect();
        while let Some(News { index, piece, end }) = self.next().await? {
            pieces[index].text.push_str(&piece.text);
            if self.tokens_matter {
                pieces[index].tokens.extend(piece.tokens);
            }
            if end.is_some() {
                ends[index] = end;
            }
        }
        let whole = |(piece, end): (Piece, Option<End>)| {
            let end = end.ok_or_else(|| Problem::internal("a text stopped without an end"))?;
            Ok(WholeText { piece, end })
        };
        pieces.into_iter().zip(ends).map(whole).collect()
    }

    fn take(
        &mut self,
        index: usize,
        at: Instant,
        event: EngineEvent,
    ) -> Result<(Piece, Option<End>), Problem> {
        let row = &mut self.rows[index];
        Ok(match event {
            EngineEvent::Prompt { logprobs, .. } => {
                self.read[index] = Some(at);
                let Some(prompt) = self.echoed.get(index / self.n) else {
                    return Ok((Piece::default(), None));
                };
                let text = self.model.need_tokenizer()?.decode(prompt);
                let text = text.map_err(|error| Problem::field("prompt", error.to_string()))?;
                (row.echo(text, logprobs), None)
            }
            EngineEvent::Token { id, logprob, top, text, .. } => (row.token(id, logprob, top, text), None),
            EngineEvent::Found(found) => match found.into_iter().next() {
                Some(Completion { ids, logprobs, text, .. }) => {
                    (row.found(&ids, &logprobs, text.unwrap_or_default()), None)
                }
                None => (Piece::default(), None),
            },
            EngineEvent::Done { reason, rest, usage, stop } => {
                // Of several texts of one prompt only the first reads it.
                self.usage.add(usage, index % self.n);
                let all = self.keeps_end && matches!(stop, Some(StoppedBy::Token(_)));
                let (read, ended) = (self.read[index], at);
                let end = End { reason: reason.into(), stop, usage, read, ended };
                (row.end(reason, rest, all), Some(end))
            }
            EngineEvent::Failed(error) => return Err(error.into()),
            _ => (Piece::default(), None),
        })
    }
}
