//! Texts beside each other, as wide on a terminal as they are, Chinese included.

use crate::printable::printable;
use crate::width::width;

/// A text narrower than this can't be read.
const NARROWEST: usize = 20;
const GAP: &str = "   ";

/// Texts under their titles in columns that together take `columns` of a terminal; one below the other where that would
/// make them too narrow.
pub fn side_by_side(texts: &[(String, String)], columns: usize) -> String {
    let gaps = GAP.len() * texts.len().saturating_sub(1);
    let each = columns.saturating_sub(gaps) / texts.len().max(1);
    if each < NARROWEST {
        let one = |text: &(String, String)| side_by_side(std::slice::from_ref(text), columns.max(NARROWEST));
        return texts.iter().map(one).collect::<Vec<_>>().join("\n");
    }
    let column = |(title, text): &(String, String)| {
        let mut lines = wrapped(title, each);
        lines.push("─".repeat(lines.iter().map(|line| width(line)).max().unwrap_or(0)));
        lines.extend(wrapped(text, each));
        lines
    };
    let texts: Vec<Vec<String>> = texts.iter().map(column).collect();
    let line = |i: usize| {
        let mut line = String::new();
        for (n, text) in texts.iter().enumerate() {
            let cell = text.get(i).map_or("", String::as_str);
            let gap = if n == 0 { "" } else { GAP };
            line += &format!("{gap}{cell}{}", " ".repeat(each - width(cell).min(each)));
        }
        format!("{}\n", line.trim_end())
    };
    (0..texts.iter().map(Vec::len).max().unwrap_or(0)).map(line).collect()
}

/// The lines of a text, made harmless for a terminal and no wider than so many columns.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrapped_line(&printable(line), columns)).collect()
}

/// Breaks a line at spaces, or within a word (as Chinese is) that is wider than a line.
fn wrapped_line(line: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), line);
    while width(rest) > columns {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = ends.take_while(|&end| width(&rest[..end]) <= columns).last();
        // A character that is wider than a line stands alone.
        let end = end.unwrap_or_else(|| rest.chars().next().map_or(rest.len(), char::len_utf8));
        let at_space = if rest[end..].starts_with(' ') { Some(end) } else { rest[..end].rfind(' ') };
        let end = at_space.filter(|&space| space > 0).unwrap_or(end);
        lines.push(rest[..end].to_owned());
        rest = rest[end..].strip_prefix(' ').unwrap_or(&rest[end..]);
    }
    if lines.is_empty() || !rest.is_empty() {
        lines.push(rest.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: &[(&str, &str)], columns: usize) -> String {
        let texts: Vec<_> = texts.iter().map(|&(title, text)| (title.to_owned(), text.to_owned())).collect();
        side_by_side(&texts, columns)
    }

    #[test]
    fn columns_line_up_with_chinese_in_them() {
        let page = shown(
            &[("exact", "西遊記西遊記西遊記西遊記x"), ("story", "once upon a time there was a\ncat")],
            43,
        );
        let want = "exact                  story\n\
                    ─────                  ─────\n\
                    西遊記西遊記西遊記西   once upon a time\n\
                    遊記x                  there was a\n\
                    \x20                      cat\n";
        assert_eq!(page, want);
        assert!(page.lines().all(|line| width(line) <= 43));
    }

    #[test]
    fn what_would_be_too_narrow_stands_one_below_the_other() {
        assert_eq!(shown(&[("a", "x"), ("b", "y")], 42), "a\n─\nx\n\nb\n─\ny\n");
        assert_eq!(shown(&[], 42), "");
        assert_eq!(shown(&[("a", "")], 42), "a\n─\n");
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrapped("ab cd", 5), ["ab cd"]);
        assert_eq!(wrapped("ab cd", 4), ["ab", "cd"]);
        assert_eq!(wrapped("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(wrapped("好好", 1), ["好", "好"]);
        assert_eq!(wrapped("a\u{1b}[2Jb", 40), ["a\\u{1b}[2Jb"]);
        assert_eq!(wrapped("   abc", 3), ["  ", "abc"]);
    }
}
