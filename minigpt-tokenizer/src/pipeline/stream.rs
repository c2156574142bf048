//! Long texts are encoded in parts: the `tokenizers` crate keeps dozens of bytes for every byte of a text.

use super::PipelineTokenizer;
use crate::error::Result;

/// The length from which a part may end. Each is cut behind a line.
const PART: usize = 1 << 20;

/// A text in parts of a megabyte or a little more.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = (0..=PART.min(rest.len())).rev().find(|&at| rest.is_char_boundary(at)).unwrap_or(0);
        let end = rest[start..].find('\n').map_or(rest.len(), |at| start + at + 1);
        let (part, further) = rest.split_at(end);
        rest = further;
        (!part.is_empty()).then_some(part)
    })
}

/// Text that arrives in pieces, and is encoded in parts of [`PART`] bytes or a little more.
#[derive(Debug, Default)]
pub(crate) struct PipelineStream {
    pending: String,
    /// How much of it was looked through for the end of a part.
    searched: usize,
    /// How many characters were encoded.
    position: usize,
}

impl PipelineStream {
    pub(crate) fn push(
        &mut self,
        tokenizer: &PipelineTokenizer,
        text: &str,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        self.pending.push_str(text);
        while let Some(end) = self.part_end() {
            let rest = self.pending.split_off(end);
            let part = std::mem::replace(&mut self.pending, rest);
            self.searched = 0;
            self.encode(tokenizer, &part, ids)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, tokenizer: &PipelineTokenizer, ids: &mut Vec<u32>) -> Result<()> {
        let part = std::mem::take(&mut self.pending);
        self.encode(tokenizer, &part, ids)
    }

    fn encode(&mut self, tokenizer: &PipelineTokenizer, part: &str, ids: &mut Vec<u32>) -> Result<()> {
        let shared = &tokenizer.shared;
        let pipeline = if self.position == 0 { &shared.plain } else { &shared.further };
        ids.extend(tokenizer.run(pipeline, part, self.position)?);
        self.position += part.chars().count();
        Ok(())
    }

    /// Where a part ends that is long enough: behind the first line end that no white space follows.
    fn part_end(&mut self) -> Option<usize> {
        let bytes = self.pending.as_bytes();
        let mut at = self.searched.max(PART);
        while at + 1 < bytes.len() {
            if bytes[at] == b'\n' && !self.pending[at + 1..].starts_with(char::is_whitespace) {
                return Some(at + 1);
            }
            at += 1;
        }
        self.searched = at.min(bytes.len().saturating_sub(1));
        None
    }
}
