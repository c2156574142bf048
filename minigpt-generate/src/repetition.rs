//! Noticing that a text goes round in circles, as small models do.

/// A text is caught in a loop when its end is the same run of tokens so many times,
const TIMES: usize = 4;
/// which together are at least so many tokens,
const TOKENS: usize = 32;
/// and a run is at most so many.
const LONGEST: usize = 64;

/// Whether the end of a text only repeats itself.
pub fn is_looping(ids: &[u32]) -> bool {
    (1..=LONGEST.min(ids.len() / TIMES)).any(|piece| {
        let times = TIMES.max(TOKENS.div_ceil(piece));
        let Some(start) = ids.len().checked_sub(piece * times) else { return false };
        let end = &ids[start..];
        end[piece..] == end[..end.len() - piece]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_comes_again_and_again_is_a_loop() {
        let text: Vec<u32> = (0..50).chain([7, 8, 9].into_iter().cycle().take(33)).collect();
        assert!(is_looping(&text));
        assert!(!is_looping(&text[..60]), "three times is not yet a loop");
        assert!(is_looping(&[5; 32]));
        assert!(!is_looping(&[5; 31]));
        let long: Vec<u32> = (0..40).cycle().take(160).collect();
        assert!(is_looping(&long));
        assert!(!is_looping(&long[..159]));
    }

    #[test]
    fn other_texts_are_none() {
        assert!(!is_looping(&[]));
        assert!(!is_looping(&(0..500).collect::<Vec<u32>>()));
        assert!(!is_looping(&(0..200).map(|i| i * i % 37 + i / 50).collect::<Vec<u32>>()));
    }
}
