//! Looking inside a model folder: what `minigpt-insight` needs from a tokenizer, from decoding and from a run's folder.

use crate::error::Result;
use crate::model_folder::ModelFolder;
use minigpt_files::{Action, Error as FileError};
use minigpt_generate::{GenerationConfig, Sampler, processors, sampling};
use minigpt_insight::{
    Boundary, ParsedSentence, Subject, TokenizedSentence, Walk, WalkChoice, WalkDraw, WalkFocus,
    boundaries_of, walk,
};
use std::path::{Path, PathBuf};

/// A model as it was after a step of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The step.
    pub step: u64,
    /// Its model folder.
    pub path: PathBuf,
}

/// The snapshots that a run has kept, in order; none where there is no such run.
pub fn snapshots(run: &Path) -> Result<Vec<Snapshot>> {
    let folder = run.join("snapshots");
    if !minigpt_files::is_there(&folder)? {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&folder).map_err(|source| FileError::Io {
        action: Action::Read,
        path: folder.clone(),
        source,
    })?;
    let snapshot = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let step = path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()?;
        path.join("config.json").exists().then_some(Snapshot { step, path })
    };
    let mut found: Vec<Snapshot> = entries.filter_map(snapshot).collect();
    found.sort_by_key(|snapshot| snapshot.step);
    Ok(found)
}

impl ModelFolder {
    /// The text of ids, for [`Subject::with_words`].
    pub fn words(&self) -> impl Fn(&[u32]) -> Option<String> + '_ {
        |ids| {
            let tokenizer = self.tokenizer.as_ref()?;
            match ids {
                [id] => tokenizer.token(*id),
                ids => tokenizer.decode(ids).ok(),
            }
        }
    }

    /// The ids of special tokens, which no text has in its middle.
    pub fn special_ids(&self) -> Vec<u32> {
        let tokenizer = self.tokenizer.iter();
        tokenizer
            .flat_map(|tokenizer| tokenizer.special_names().filter_map(|name| tokenizer.special_id(name)))
            .collect()
    }

    /// The pass of a text, step by step, down to the choice of the next token as these settings make it.
    pub fn walk(&self, ids: &[u32], focus: WalkFocus, config: &GenerationConfig) -> Result<Walk> {
        config.validate()?;
        let words = self.words();
        let mut steps = walk(&Subject::new(&self.gpt).with_words(&words), ids, focus)?;
        let logits = steps.walk.last().map_or_else(Vec::new, |step| step.values.clone());
        let (mut tempered, history) = (logits, &ids[..=focus.position]);
        processors::penalties(&mut tempered, history, 0, config);
        let choice = if config.is_greedy() {
            WalkChoice { drawn: None, chosen: sampling::argmax(&tempered).unwrap_or(0) }
        } else {
            processors::temperature(&mut tempered, config.temperature);
            let mut filtered = tempered.clone();
            processors::top_k(&mut filtered, config.top_k);
            processors::top_p(&mut filtered, config.top_p);
            processors::min_p(&mut filtered, config.min_p);
            let chosen = Sampler::new(config.seed, 0).draw(&filtered).unwrap_or(0);
            WalkChoice { drawn: Some(WalkDraw { tempered, filtered }), chosen }
        };
        steps.choose(&choice);
        Ok(steps)
    }

    /// What ends at each token of a text.
    pub fn boundaries(&self, ids: &[u32]) -> Result<Vec<Option<Boundary>>> {
        let tokenizer = self.need_tokenizer()?;
        let tokens: Vec<String> = ids.iter().map(|&id| tokenizer.token(id).unwrap_or_default()).collect();
        Ok(boundaries_of(&tokens))
    }

    /// Sentences of a treebank with the tokens of each word. One whose text the tokenizer does not give back whole is left out:
    /// its tokens cannot be assigned to words.
    pub fn tokenize_sentences(&self, sentences: Vec<ParsedSentence>) -> Result<Vec<TokenizedSentence>> {
        let tokenizer = self.need_tokenizer()?;
        let mut tokenized = Vec::new();
        for sentence in sentences {
            let (text, _) = sentence.text();
            let ids = tokenizer.encode(&text)?;
            let mut at = 0;
            let ends: Vec<usize> = ids
                .iter()
                .map(|&id| {
                    at += tokenizer.byte_length(id);
                    at
                })
                .collect();
            if at == text.len() && !ids.is_empty() {
                tokenized.push(TokenizedSentence::new(sentence, ids, &ends));
            }
        }
        Ok(tokenized)
    }
}
