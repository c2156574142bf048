//! Scoring by questions: the model's answers are compared with the expected ones, which must match exactly.

use crate::error::Result;
use crate::run::RunError;
use minigpt_data::{LossOn, QaDataset};
use minigpt_generate::{GenerationConfig, generate};
use minigpt_model::Gpt;
use minigpt_tokenizer::Tokenizer;

/// Questions answered at once.
const BATCH: usize = 32;

/// A question, what should come, and what came.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Answered {
    /// The question: all turns before the last answer.
    pub question: String,
    /// The answer that the data has.
    pub expected: String,
    /// The model's.
    pub answer: String,
}

impl Answered {
    /// Whether the answer is the expected one, but for spaces around it.
    pub fn is_right(&self) -> bool {
        self.answer.trim() == self.expected.trim()
    }
}

/// Has a model answer every question of a data set, always with the likeliest token, and tells `progress` how many are
/// done. The data must be opened with the loss on answers, which says where they are.
pub fn answer_all(
    gpt: &Gpt,
    tokenizer: &Tokenizer,
    data: &QaDataset,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Answered>> {
    if data.options().loss_on != LossOn::Answer {
        return Err(RunError::NoAnswers.into());
    }
    let ends = data.stop_ids();
    let examples = data.summary().examples as usize;
    let split = |i: usize| {
        let (ids, is_answer) = data.example(i);
        let end = is_answer.iter().rposition(|&answer| answer).map_or(0, |last| last + 1);
        let start = is_answer[..end].iter().rposition(|&answer| !answer).map_or(0, |last| last + 1);
        (&ids[..start], without_end(&ids[start..end], ends))
    };
    // Questions of like length are asked together: nothing is computed for padding.
    let mut order: Vec<usize> = (0..examples).collect();
    order.sort_by_key(|&i| split(i).0.len());
    let mut answered: Vec<Option<Answered>> = vec![None; examples];
    for batch in order.chunks(BATCH) {
        let longest = batch.iter().map(|&i| split(i).1.len()).max().unwrap_or(0);
        let config = GenerationConfig {
            // Room for an answer that is wrong and longer, not for one without end.
            max_new_tokens: 2 * longest + 16,
            eos_token_id: ends.to_vec(),
            ..GenerationConfig::default()
        };
        let prompts: Vec<Vec<u32>> = batch.iter().map(|&i| split(i).0.to_vec()).collect();
        for (&i, completion) in batch.iter().zip(generate(gpt, &prompts, &config, Some(tokenizer))?) {
            let (question, expected) = split(i);
            answered[i] = Some(Answered {
                question: turns(tokenizer, question, ends)?,
                expected: tokenizer.decode(expected)?,
                answer: completion.text.unwrap_or_default(),
            });
        }
        progress(batch.len() as u64);
    }
    Ok(answered.into_iter().flatten().collect())
}

fn without_end<'a>(ids: &'a [u32], ends: &[u32]) -> &'a [u32] {
    match ids {
        [said @ .., last] if ends.contains(last) => said,
        said => said,
    }
}

/// What was said, turn by turn.
fn turns(tokenizer: &Tokenizer, ids: &[u32], ends: &[u32]) -> Result<String> {
    let said = without_end(ids, ends).split(|id| ends.contains(id)).map(|turn| tokenizer.decode(turn));
    Ok(said.collect::<Result<Vec<_>, _>>()?.join(" / "))
}
