//! Cutting text into GPT-2's pieces while it arrives, so that neither encoding nor training needs it whole.

use crate::pretokenize::{LOOKAHEAD, pieces};

/// The least text worth cutting.
const GATHER: usize = 1 << 16;

/// Text gathers until there is a good deal of it; then all pieces that more text can't change are handed on.
#[derive(Debug)]
pub(crate) struct PieceStream {
    pending: String,
    /// How many bytes were handed on.
    position: usize,
    /// Cut when this much has gathered: twice what remained, so that one enormous piece is not scanned again and
    /// again.
    enough: usize,
}

impl Default for PieceStream {
    fn default() -> Self {
        Self { pending: String::new(), position: 0, enough: GATHER }
    }
}

impl PieceStream {
    /// Takes the next text; `each` gets the pieces that are certain, and how many bytes came before each.
    pub(crate) fn push<E>(
        &mut self,
        text: &str,
        mut each: impl FnMut(&str, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pending.push_str(text);
        if self.pending.len() < self.enough {
            return Ok(());
        }
        let mut done = 0;
        for piece in pieces(&self.pending) {
            if done + piece.len() + LOOKAHEAD > self.pending.len() {
                break;
            }
            each(piece, self.position + done)?;
            done += piece.len();
        }
        self.pending.drain(..done);
        self.position += done;
        self.enough = GATHER.max(2 * self.pending.len());
        Ok(())
    }

    /// Ends the text and hands on the rest of it; the next text starts anew.
    pub(crate) fn finish<E>(&mut self, mut each: impl FnMut(&str, usize) -> Result<(), E>) -> Result<(), E> {
        let mut rest = std::mem::take(self);
        for piece in pieces(&rest.pending) {
            each(piece, rest.position)?;
            rest.position += piece.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// Cuts text that arrives so many characters at a time.
    fn streamed(text: &str, step: usize, enough: usize) -> Vec<String> {
        let mut stream = PieceStream { enough, ..PieceStream::default() };
        let mut found = Vec::new();
        let mut each = |piece: &str, _: usize| -> Result<(), Infallible> {
            found.push(piece.to_owned());
            Ok(())
        };
        let characters: Vec<char> = text.chars().collect();
        for part in characters.chunks(step) {
            stream.push(&part.iter().collect::<String>(), &mut each).unwrap();
            stream.enough = enough;
        }
        stream.finish(&mut each).unwrap();
        found
    }

    proptest! {
        #[test]
        fn pieces_do_not_depend_on_how_the_text_arrives(
            text in "[a 'lrevstdm\n\r\t你🙂1!\u{3000}]{0,40}", step in 1_usize..8, enough in 0_usize..20,
        ) {
            let whole: Vec<String> = pieces(&text).map(str::to_owned).collect();
            prop_assert_eq!(streamed(&text, step, enough), whole);
        }
    }

    #[test]
    fn an_enormous_piece_in_small_parts_is_scanned_a_few_times_only() {
        let mut stream = PieceStream::default();
        let mut found = 0;
        let mut each = |piece: &str, position: usize| -> Result<(), Infallible> {
            found += piece.len();
            assert_eq!(position, 0);
            Ok(())
        };
        for _ in 0..1_000_000 {
            stream.push("aaaaaaaaaa", &mut each).unwrap();
        }
        stream.finish(&mut each).unwrap();
        assert_eq!(found, 10_000_000);
    }
}
