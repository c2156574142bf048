//! GPT-2's own vocabulary, built in.

use crate::bpe::{BpeTokenizer, Origin, Tokens};
use crate::merges::{Merges, Rule};
use std::sync::LazyLock;

/// GPT-2's only special token, which it puts between documents.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// The bytes of ids 0 to 255, then the two ids that each further one joins.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gpt2.bin"));

/// GPT-2's BPE, put together at its first use and shared afterwards.
pub(crate) fn gpt2() -> BpeTokenizer {
    static GPT2: LazyLock<BpeTokenizer> = LazyLock::new(build);
    GPT2.clone()
}

/// # Panics
/// Never: the table is ours, and a test builds it.
fn build() -> BpeTokenizer {
    let (bytes, pairs) = TABLE.split_at(256);
    let mut tokens = Tokens::default();
    bytes.iter().for_each(|&byte| tokens.push(&[byte]));
    let mut merges = Merges::with_capacity(pairs.len() / 4);
    for quad in pairs.chunks_exact(4) {
        let left = u32::from(u16::from_le_bytes([quad[0], quad[1]]));
        let right = u32::from(u16::from_le_bytes([quad[2], quad[3]]));
        let joined = tokens.len() as u32;
        merges.push(Rule { left, right, joined });
        tokens.push_joined(left, right);
    }
    let end = tokens.len() as u32;
    tokens.push(END_OF_TEXT.as_bytes());
    BpeTokenizer::new(tokens, merges, vec![(END_OF_TEXT.to_owned(), end)], Origin::Training)
        .expect("GPT-2's vocabulary is sound")
}
