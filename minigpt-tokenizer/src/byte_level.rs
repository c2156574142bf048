//! GPT-2's way of writing any byte as a visible character, in which vocabulary files spell their tokens: a space is
//! `Ġ`, a line end `Ċ`, and the two bytes of `é` are `Ã©`.

/// Bytes that are visible as they are, in Latin-1; the others follow at U+0100, in order.
const fn is_visible(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The code point that each byte is written as.
static CODES: [u16; 256] = codes();

const fn codes() -> [u16; 256] {
    let mut codes = [0; 256];
    let mut next = 0x100;
    let mut byte = 0;
    while byte < 256 {
        if is_visible(byte as u8) {
            codes[byte] = byte as u16;
        } else {
            codes[byte] = next;
            next += 1;
        }
        byte += 1;
    }
    codes
}

/// A token as vocabulary files spell it.
pub(crate) fn spell(bytes: &[u8]) -> String {
    bytes.iter().filter_map(|&byte| char::from_u32(CODES[usize::from(byte)].into())).collect()
}

/// The bytes of a spelt token, or none where a character spells no byte.
pub(crate) fn unspell(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

/// All bytes in the order in which GPT-2 numbers them: as their spellings sort.
pub(crate) fn alphabet() -> [u8; 256] {
    let mut bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    bytes.sort_by_key(|&byte| CODES[usize::from(byte)]);
    bytes
}

fn byte_of(character: char) -> Option<u8> {
    let code = u16::try_from(u32::from(character)).ok()?;
    match u8::try_from(code) {
        Ok(byte) => is_visible(byte).then_some(byte),
        Err(_) => CODES.iter().position(|&known| known == code).map(|byte| byte as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spelt_as_gpt2_spells_them() {
        assert_eq!(spell(" a\n".as_bytes()), "ĠaĊ");
        assert_eq!(spell("é\u{AD}".as_bytes()), "Ã©ÂŃ");
    }

    #[test]
    fn every_byte_survives_spelling() {
        let all: Vec<u8> = (0..=255).collect();
        let spelt = spell(&all);
        assert_eq!(spelt.chars().count(), 256);
        assert_eq!(unspell(&spelt), Some(all));
    }

    #[test]
    fn characters_outside_the_alphabet_spell_nothing() {
        assert_eq!(unspell("a b"), None);
        assert_eq!(unspell("你"), None);
        assert_eq!(unspell("\u{144}"), None);
    }

    #[test]
    fn the_alphabet_has_gpt2s_order() {
        let alphabet = alphabet();
        assert_eq!(
            (alphabet[0], alphabet[93], alphabet[94], alphabet[188], alphabet[220]),
            (b'!', b'~', 0xA1, 0, b' ')
        );
    }
}
