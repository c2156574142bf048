//! Prompts, checked before anything is computed, so that a mistake is told in the caller's terms.

use crate::config::{ContextRule, GenerationConfig};
use crate::error::{Error, Result};
use minigpt_model::Config;

/// The prompts, an empty one replaced by the first token of a text where the settings name it.
pub fn check(prompts: &[Vec<u32>], config: &GenerationConfig, model: &Config) -> Result<Vec<Vec<u32>>> {
    if prompts.is_empty() {
        return Err(refuse("the list of prompts", "is empty"));
    }
    let which = |i: usize| {
        if prompts.len() == 1 {
            "the prompt".to_owned()
        } else {
            format!("prompt {} of {}", i + 1, prompts.len())
        }
    };
    prompts.iter().enumerate().map(|(i, prompt)| check_one(&which(i), prompt, config, model)).collect()
}

fn check_one(which: &str, prompt: &[u32], config: &GenerationConfig, model: &Config) -> Result<Vec<u32>> {
    let Config { vocab_size, block_size, .. } = *model;
    let prompt = match (prompt, config.bos_token_id) {
        ([], Some(bos)) => vec![bos],
        ([], None) => return Err(refuse(which, "is empty: there must be a token to begin with")),
        (prompt, _) => prompt.to_vec(),
    };
    if let Some(at) = prompt.iter().position(|&id| id as usize >= vocab_size) {
        let id = prompt[at];
        let message =
            format!("has id {id} at position {at}, outside of the vocabulary of {vocab_size} tokens");
        return Err(refuse(which, message));
    }
    if config.context == ContextRule::Stop && prompt.len() > block_size {
        let message = format!("has {} tokens, more than the model's context of {block_size}", prompt.len());
        return Err(refuse(which, message));
    }
    if config.context == ContextRule::Stop && prompt.len() == block_size && config.max_new_tokens > 0 {
        let message =
            format!("has {block_size} tokens and fills the model's context: there is no room for an answer");
        return Err(refuse(which, message));
    }
    Ok(prompt)
}

fn refuse(which: &str, message: impl Into<String>) -> Error {
    Error::Prompt { which: which.to_owned(), message: message.into() }
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
