//! The four classes of characters that GPT-2's pattern distinguishes, from a table made at build time.

/// What GPT-2's pattern sees in a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Other,
    Letter,
    Number,
    Space,
}

/// Block of 256 code points → distinct block, then the distinct blocks.
static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/unicode_class.bin"));
const BLOCKS: usize = 0x1100;

/// `\p{L}`, `\p{N}`, `\s` or none of them.
pub(crate) fn class(code: u32) -> Class {
    let block = usize::from(TABLE[code as usize >> 8]);
    match TABLE[BLOCKS + block * 256 + (code as usize & 0xFF)] {
        1 => Class::Letter,
        2 => Class::Number,
        3 => Class::Space,
        _ => Class::Other,
    }
}
