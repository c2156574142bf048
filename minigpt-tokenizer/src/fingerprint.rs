//! A short name for what a tokenizer does, so that two can be told apart without comparing their vocabularies.

use crate::tokenizer::Tokenizer;
use sha2::{Digest, Sha256};

/// 32 hexadecimal digits over the tokens, which of them are special, and the merges; or over the file of a tokenizer
/// of another kind.
pub(crate) fn fingerprint(tokenizer: &Tokenizer) -> String {
    let mut hash = Sha256::new();
    if let Tokenizer::Pipeline(pipeline) = tokenizer {
        hash.update(pipeline.file());
        return digits(hash);
    }
    let mut number = |n: usize| hash.update((n as u64).to_le_bytes());
    let mut specials: Vec<usize> = tokenizer.specials().iter().map(|(_, id)| id as usize).collect();
    specials.sort_unstable();
    let rules = match tokenizer {
        Tokenizer::Char(_) | Tokenizer::Pipeline(_) => &[],
        Tokenizer::Bpe(bpe) => bpe.rules(),
    };
    [tokenizer.vocab_size(), specials.len(), rules.len()].into_iter().for_each(&mut number);
    specials.into_iter().for_each(&mut number);
    for rule in rules {
        [rule.left, rule.right, rule.joined].into_iter().for_each(|id| number(id as usize));
    }
    for id in 0..tokenizer.vocab_size() as u32 {
        let token = tokenizer.token_bytes(id).unwrap_or_default();
        hash.update((token.len() as u64).to_le_bytes());
        hash.update(token);
    }
    digits(hash)
}

fn digits(hash: Sha256) -> String {
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
