//! A short name for what a tokenizer does, so that two can be told apart without comparing their vocabularies.

use crate::tokenizer::Tokenizer;
use sha2::{Digest, Sha256};

/// 32 hexadecimal digits over the kind, the tokens, the special ones, and the merges.
pub(crate) fn fingerprint(tokenizer: &Tokenizer) -> String {
    let mut hash = Sha256::new();
    hash.update(match tokenizer {
        Tokenizer::Char(_) => b"char",
        Tokenizer::Bpe(_) => b"gpt2",
    });
    for id in 0..tokenizer.vocab_size() as u32 {
        let token = tokenizer.token_bytes(id).unwrap_or_default();
        hash.update((token.len() as u64).to_le_bytes());
        hash.update(token);
    }
    for (_, id) in tokenizer.specials().iter() {
        hash.update(id.to_le_bytes());
    }
    if let Tokenizer::Bpe(bpe) = tokenizer {
        for rule in bpe.rules() {
            [rule.left, rule.right, rule.joined].iter().for_each(|id| hash.update(id.to_le_bytes()));
        }
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
