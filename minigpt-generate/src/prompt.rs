//! Prompts are checked before anything is computed, so that errors are in the caller's terms.

use crate::config::{ContextRule, GenerationConfig};
use crate::error::{Error, PromptProblem, Result, WhichPrompt};
use minigpt_model::Config;

/// The prompts, an empty one replaced by the first token of a text where the settings name it.
pub fn check(prompts: &[Vec<u32>], config: &GenerationConfig, model: &Config) -> Result<Vec<Vec<u32>>> {
    if prompts.is_empty() {
        return Err(Error::NoPrompts);
    }
    let which = |i: usize| match prompts.len() {
        1 => WhichPrompt::Only,
        count => WhichPrompt::Of { number: i + 1, count },
    };
    let check = |(i, prompt): (usize, &Vec<u32>)| {
        check_one(prompt, config, model).map_err(|problem| Error::Prompt { which: which(i), problem })
    };
    prompts.iter().enumerate().map(check).collect()
}

fn check_one(prompt: &[u32], config: &GenerationConfig, model: &Config) -> Result<Vec<u32>, PromptProblem> {
    let Config { vocab_size, block_size, .. } = *model;
    let prompt = match (prompt, config.bos_token_id) {
        ([], Some(bos)) => vec![bos],
        ([], None) => return Err(PromptProblem::Empty),
        (prompt, _) => prompt.to_vec(),
    };
    if let Some(position) = prompt.iter().position(|&id| id as usize >= vocab_size) {
        return Err(PromptProblem::UnknownToken { id: prompt[position], position, vocab_size });
    }
    if config.context == ContextRule::Stop && prompt.len() > block_size {
        return Err(PromptProblem::TooLong { tokens: prompt.len(), block_size });
    }
    if config.context == ContextRule::Stop && prompt.len() == block_size && config.max_new_tokens > 0 {
        return Err(PromptProblem::NoRoom { block_size });
    }
    Ok(prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(prompts: &[Vec<u32>], config: &GenerationConfig) -> Result<Vec<Vec<u32>>> {
        check(prompts, config, &Config { vocab_size: 10, block_size: 4, ..Config::default() })
    }

    fn complaint(prompts: &[Vec<u32>], config: &GenerationConfig) -> String {
        checked(prompts, config).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_prompt_begins_with_the_first_token_of_a_text_if_there_is_one() {
        let config = GenerationConfig::default();
        assert_eq!(complaint(&[vec![]], &config), "the prompt is empty: there must be a token to begin with");
        assert!(complaint(&[vec![1], vec![]], &config).starts_with("prompt 2 of 2 is empty"));
        assert_eq!(complaint(&[], &config), "the list of prompts is empty");
        let config = GenerationConfig { bos_token_id: Some(3), ..config };
        assert_eq!(checked(&[vec![], vec![1]], &config).unwrap(), [[3], [1]]);
    }

    #[test]
    fn an_id_outside_of_the_vocabulary_is_named_with_its_place() {
        assert_eq!(
            complaint(&[vec![1], vec![2, 10]], &GenerationConfig::default()),
            "prompt 2 of 2 has id 10 at position 1, outside of the vocabulary of 10 tokens"
        );
        let config = GenerationConfig { bos_token_id: Some(50_256), ..GenerationConfig::default() };
        assert!(complaint(&[vec![]], &config).contains("id 50256"));
    }

    #[test]
    fn a_prompt_longer_than_the_context_may_slide_but_not_stop() {
        let stop = GenerationConfig { context: ContextRule::Stop, ..GenerationConfig::default() };
        checked(&[vec![1; 3]], &stop).unwrap();
        checked(&[vec![1; 4]], &GenerationConfig { max_new_tokens: 0, ..stop.clone() }).unwrap();
        assert_eq!(
            complaint(&[vec![1; 4]], &stop),
            "the prompt has 4 tokens and fills the model's context: there is no room for an answer"
        );
        assert_eq!(
            complaint(&[vec![1; 5]], &stop),
            "the prompt has 5 tokens, more than the model's context of 4"
        );
        checked(&[vec![1; 5]], &GenerationConfig::default()).unwrap();
    }
}
