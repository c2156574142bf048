//! How wide a text is on a terminal, where Chinese, Japanese and Korean characters and emoji take two columns.

use unicode_width::UnicodeWidthStr;

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// A text cut to so many columns of a terminal, with … where something is missing.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    // Whole prefixes are measured: characters that join into one take less than their sum.
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|&end| width(&text[..end]) < columns).last().unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_and_emoji_take_two_columns_and_accents_none() {
        assert_eq!(["", "abc", "西遊記", "🙂", "e\u{301}", "│▏⠒…–·"].map(width), [0, 3, 6, 2, 1, 6]);
    }

    #[test]
    fn long_lines_are_cut_by_their_columns() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("西遊記", 6), "西遊記");
        assert_eq!(cut("西遊記", 5), "西遊…");
        assert_eq!(cut("西遊記", 4), "西…");
        assert_eq!((cut("ab", 1), cut("ab", 0)), ("…".to_owned(), "…".to_owned()));
    }
}
