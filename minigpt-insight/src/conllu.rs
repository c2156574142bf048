//! CoNLL-U: sentences with their words, and which word depends on which in what relation. A text format of ten columns, of
//! which four are read here: number, form, head, relation; and of the last one whether a space follows.

use crate::error::{InvalidTreebank, Result};

/// A sentence with its dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedSentence {
    /// Its words.
    pub words: Vec<ParsedWord>,
}

/// A word of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedWord {
    /// As it is written.
    pub form: String,
    /// Whether a space follows.
    pub space_after: bool,
    /// The word that it depends on, counted from 0; none for the root.
    pub head: Option<usize>,
    /// How: `nsubj`, `det`, …, without a subtype.
    pub relation: String,
}

impl ParsedSentence {
    /// The sentence as it is written, and where each word begins and ends in it, in bytes.
    pub fn text(&self) -> (String, Vec<(usize, usize)>) {
        let (mut text, mut spans) = (String::new(), Vec::new());
        for word in &self.words {
            spans.push((text.len(), text.len() + word.form.len()));
            text += &word.form;
            if word.space_after {
                text.push(' ');
            }
        }
        (text.trim_end().to_owned(), spans)
    }
}

/// Reads all sentences of a CoNLL-U file. Words that were written together (`1-2`) are read as their parts; words that were
/// left out (`1.1`) are passed over.
///
/// # Errors
/// A line is not of the format; the error names it.
pub fn parse(text: &str) -> Result<Vec<ParsedSentence>> {
    let mut sentences = Vec::new();
    let mut words = Vec::new();
    let mut begun = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            end(&mut words, &mut sentences, begun)?;
        } else if !line.starts_with('#') {
            if words.is_empty() {
                begun = number;
            }
            words.extend(word(line, words.len(), number)?);
        }
    }
    end(&mut words, &mut sentences, begun)?;
    if sentences.is_empty() { Err(InvalidTreebank::NoSentences.into()) } else { Ok(sentences) }
}

fn word(line: &str, before: usize, number: usize) -> Result<Option<ParsedWord>> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [id, form, _, _, _, _, head, relation, _, misc] = columns[..] else {
        return Err(InvalidTreebank::ColumnCount { line: number, columns: columns.len() }.into());
    };
    if id.contains(['-', '.']) {
        return Ok(None);
    }
    let expected = before + 1;
    if id.parse() != Ok(expected) {
        return Err(InvalidTreebank::WordNumber { line: number, id: id.to_owned(), expected }.into());
    }
    let head: usize =
        head.parse().map_err(|_| InvalidTreebank::NotAHead { line: number, head: head.to_owned() })?;
    Ok(Some(ParsedWord {
        form: form.to_owned(),
        space_after: !misc.split('|').any(|entry| entry == "SpaceAfter=No"),
        head: head.checked_sub(1),
        relation: relation.split(':').next().unwrap_or(relation).to_owned(),
    }))
}

fn end(words: &mut Vec<ParsedWord>, sentences: &mut Vec<ParsedSentence>, begun: usize) -> Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    if let Some(at) = words.iter().position(|word| word.head.is_some_and(|head| head >= words.len())) {
        return Err(InvalidTreebank::MissingHead { line: begun, word: at + 1 }.into());
    }
    sentences.push(ParsedSentence { words: std::mem::take(words) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOG: &str = "# text = The dog barks.\n\
        1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n\
        2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj:pass\t_\t_\n\
        3\tbarks\tbark\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n\
        4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_\n";

    #[test]
    fn a_sentence_is_read_with_its_spaces_and_relations() {
        let sentences = parse(&format!("{DOG}\n{DOG}")).unwrap();
        assert_eq!(sentences.len(), 2);
        let (text, spans) = sentences[0].text();
        assert_eq!((text.as_str(), spans[3]), ("The dog barks.", (13, 14)));
        let dog = &sentences[0].words[1];
        assert_eq!((dog.head, dog.relation.as_str()), (Some(2), "nsubj"));
    }

    #[test]
    fn errors_name_the_line() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert!(said("# nothing\n").contains("no sentences"));
        assert!(said("The dog\n").contains("line 1: 1 columns"));
        assert!(said(&DOG.replace("\t3\tpunct", "\t9\tpunct")).contains("line 2: word 4"));
        assert!(said(&DOG.replace("\t0\troot", "\t_\troot")).contains("line 4: the head is \"_\""));
        assert!(said(&DOG.replace("2\tdog", "7\tdog")).contains("line 3"));
    }
}
