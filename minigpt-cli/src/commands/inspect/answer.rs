//! What is computed for an `inspect`: the answer for programs, of which people see tables.

use super::args::InspectArgs;
use super::check_place;
use crate::language::messages::inspect as message;
use anyhow::{Context, Result, ensure};
use minigpt::ModelFolder;
use minigpt_generate::{Candidate, candidates};
use minigpt_insight::{
    AblationOptions, AblationReport, AttentionSummary, Attribution, Boundaries, HeadRoles, Lens, LensOptions,
    Patching, Relations, Subject, Walk, WalkFocus, ablate, attention_summary, attribution, boundaries,
    conllu, head_roles, lens, patch, read_logits, relations,
};
use minigpt_model::Recording;
use serde::Serialize;
use std::collections::BTreeSet;

/// No treebank file is longer than this.
const LARGEST_TREEBANK: u64 = 256 << 20;
/// Tokens that a text goes on for with and without the parts that are off.
const CONTINUATION: usize = 10;

/// All that was asked for.
#[derive(Serialize)]
pub struct Answer {
    /// Characters of the given texts that the vocabulary lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<Vec<char>>,
    #[serde(flatten)]
    pub text: Option<TextAnswer>,
    #[serde(flatten)]
    pub lens: Option<Lens>,
    /// The one position that the lens is at, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lens_position: Option<usize>,
    #[serde(flatten)]
    pub attribution: Option<Attribution>,
    #[serde(flatten)]
    pub ablation: Option<AblationReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patching: Option<Patching>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundaries: Option<Boundaries>,
    #[serde(flatten)]
    pub walk: Option<Walk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_summary: Option<AttentionSummary>,
    #[serde(flatten)]
    pub heads: Option<HeadRoles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syntax: Option<Relations>,
}

/// What a model makes of a text.
#[derive(Serialize)]
pub struct TextAnswer {
    pub ids: Vec<u32>,
    pub tokens: Option<Vec<String>>,
    text: Option<String>,
    /// The logarithm of the probability of all tokens behind the first; none for a single token.
    pub logprob: Option<f64>,
    /// The mean negative log-likelihood of the tokens behind the first; none for a single token.
    pub loss: Option<f64>,
    pub perplexity: Option<f64>,
    pub positions: Vec<Position>,
    pub top: Vec<Next>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Vec<Vec<f32>>>,
}

/// How likely a token was after those before it. The first comes out of nowhere.
#[derive(Serialize)]
pub struct Position {
    pub id: u32,
    pub logprob: Option<f64>,
    /// −log₂ of its probability, in bits.
    pub surprisal: Option<f64>,
    /// 1 if it was the likeliest of all.
    pub rank: Option<usize>,
}

#[derive(Serialize)]
pub struct Next {
    #[serde(flatten)]
    pub candidate: Candidate,
    pub token: Option<String>,
}

impl Answer {
    /// Computes what was asked for, a view after the other; only what they show stays in memory.
    pub fn new(args: &InspectArgs, model: &ModelFolder) -> Result<Self> {
        let mut answer = Self::without_heads(args, model)?;
        if args.heads || args.html.is_some() {
            let words = model.words();
            let subject = Subject::new(&model.gpt).with_words(&words);
            let roles = head_roles(&subject, args.repeat(&model.special_ids()));
            // A page goes without what can't be had; who asks for it is told why.
            answer.heads = if args.heads { Some(roles?) } else { roles.ok() };
        }
        Ok(answer)
    }

    /// The same but for what heads do, which snapshots are asked all together.
    pub fn without_heads(args: &InspectArgs, model: &ModelFolder) -> Result<Self> {
        let words = model.words();
        let subject = Subject::new(&model.gpt).with_words(&words);
        let ids = match (&args.ids, &args.prompt) {
            (Some(ids), _) => Some(ids.0.clone()),
            (None, Some(prompt)) => Some(encode(model, "--prompt", prompt)?),
            (None, None) => None,
        };
        let mut answer = Self {
            unknown: unknown(args, model),
            text: None,
            lens: None,
            lens_position: None,
            attribution: None,
            ablation: None,
            patching: None,
            boundaries: None,
            walk: None,
            attention_summary: None,
            heads: None,
            syntax: None,
        };
        check_place(args, model, ids.as_ref().map_or(1, Vec::len).max(1))?;
        if let Some(ids) = ids {
            ensure!(!ids.is_empty(), message::EmptyPrompt);
            answer.text = Some(text_answer(args, model, &subject, &ids)?);
            answer.look(args, model, &subject, &ids)?;
        }
        if let Some(file) = &args.relations {
            answer.syntax = Some(syntax(file, model, &subject)?);
        }
        Ok(answer)
    }

    /// The lens at every position, or at the one that was asked for. A page shows every position.
    fn look_through_lens(&mut self, args: &InspectArgs, subject: &Subject, ids: &[u32]) -> Result<()> {
        self.lens_position = args.position.filter(|_| args.html.is_none());
        // What comes behind a position does not change what is said there.
        let ids = self.lens_position.map_or(ids, |at| &ids[..=at]);
        let mut found = lens(subject, ids, LensOptions { top: args.top, logits: args.full })?;
        if self.lens_position.is_some() {
            let last = ids.len() - 1;
            found.lens.iter_mut().for_each(|layer| drop(layer.drain(..last)));
            found.lens_logits.iter_mut().flatten().for_each(|layer| drop(layer.drain(..last)));
        }
        self.lens = Some(found);
        Ok(())
    }

    fn look(
        &mut self,
        args: &InspectArgs,
        model: &ModelFolder,
        subject: &Subject,
        ids: &[u32],
    ) -> Result<()> {
        let page = args.html.is_some();
        let position = args.position.unwrap_or(ids.len() - 1);
        if args.lens || page {
            self.look_through_lens(args, subject, ids)?;
        }
        if args.attribution || page {
            let shares = attribution(subject, ids, position, args.token);
            self.attribution = if args.attribution { Some(shares?) } else { shares.ok() };
        }
        if !args.ablate.is_empty() {
            self.ablation = Some(ablation(args, model, subject, ids)?);
        }
        let other = match (&args.patch_ids, &args.patch) {
            (Some(ids), _) => Some(ids.0.clone()),
            (None, Some(text)) => Some(encode(model, "--patch", text)?),
            (None, None) => None,
        };
        if let Some(other) = other {
            self.patching = Some(patch(subject, ids, &other, args.token, args.other_token)?);
        }
        if args.boundaries {
            self.boundaries = Some(boundaries(subject, ids, &model.boundaries(ids)?, args.seed)?);
        }
        if args.attention || page {
            self.attention_summary = Some(attention_summary(subject, ids)?);
        }
        if args.walk || page {
            let focus = WalkFocus { layer: args.layer.unwrap_or(0), head: args.head.unwrap_or(0), position };
            self.walk = Some(model.walk(ids, focus, &args.choice())?);
        }
        Ok(())
    }
}

/// The ids of the text of an option.
fn encode(model: &ModelFolder, what: &str, text: &str) -> Result<Vec<u32>> {
    model.encode(text).with_context(|| message::CouldNotEncode { what: &what }.to_string())
}

/// The characters of all given texts that the vocabulary lacks, each once; nothing where no text is given.
fn unknown(args: &InspectArgs, model: &ModelFolder) -> Option<Vec<char>> {
    let tokenizer = model.tokenizer.as_ref()?;
    let texts = args.texts();
    let all: BTreeSet<char> =
        texts.iter().flat_map(|(_, text)| tokenizer.unknown_beside_special(text)).collect();
    (!texts.is_empty()).then(|| all.into_iter().collect())
}

fn ablation(
    args: &InspectArgs,
    model: &ModelFolder,
    subject: &Subject,
    ids: &[u32],
) -> Result<AblationReport> {
    let reference = match (&args.reference, args.mean) {
        (Some(text), _) => Some(encode(model, "--reference", text)?),
        (None, true) => Some(ids.to_vec()),
        (None, false) => None,
    };
    let options = AblationOptions { top: args.top, continuation: CONTINUATION };
    Ok(ablate(subject, ids, &args.ablate, reference.as_deref(), options)?)
}

fn syntax(file: &std::path::Path, model: &ModelFolder, subject: &Subject) -> Result<Relations> {
    let read = || -> Result<Relations> {
        let sentences = conllu::parse(&minigpt_files::read_text(file, LARGEST_TREEBANK)?)?;
        Ok(relations(subject, &model.tokenize_sentences(sentences)?)?)
    };
    read().with_context(|| format!("{}", file.display()))
}

fn text_answer(
    args: &InspectArgs,
    model: &ModelFolder,
    subject: &Subject,
    ids: &[u32],
) -> Result<TextAnswer> {
    let context = || format!("{}", model.path.display());
    let logits = subject.logits(ids, &mut Recording::default()).with_context(context)?;
    let reading = read_logits(subject, ids, 0, &logits)?;
    let last = logits.get(ids.len() - 1)?.to_vec1::<f32>()?;
    let token = |id| model.tokenizer.as_ref().and_then(|tokenizer| tokenizer.token(id));
    let text = match &model.tokenizer {
        Some(tokenizer) => Some(tokenizer.decode(ids).context(message::CouldNotDecode)?),
        None => None,
    };
    let nats = |bits: f64| 0.0 - bits * std::f64::consts::LN_2;
    let position = |token: &minigpt_insight::ReadToken| Position {
        id: token.id,
        logprob: token.surprisal.map(nats),
        surprisal: token.surprisal,
        rank: token.rank,
    };
    Ok(TextAnswer {
        tokens: model
            .tokenizer
            .as_ref()
            .map(|_| ids.iter().map(|&id| token(id).unwrap_or_default()).collect()),
        text,
        logprob: reading.loss.map(|loss| 0.0 - loss * (ids.len() - 1) as f64),
        loss: reading.loss,
        perplexity: reading.loss.map(f64::exp),
        positions: reading.tokens.iter().map(position).collect(),
        top: candidates(&last, args.top)
            .into_iter()
            .map(|candidate| Next { token: token(candidate.id), candidate })
            .collect(),
        logits: args.full.then(|| logits.to_vec2()).transpose()?,
        ids: ids.to_vec(),
    })
}
