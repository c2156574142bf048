//! A message with holes: `could not {action} {0}`.

/// How many places a match may try: a message that nobody expected is left as it is rather than waited for.
const MOST_STEPS: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Hole(String),
}

/// A text with named holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

/// A format string of Rust's as a key: holes without a name are numbered, and how they are written is left out.
pub(super) fn normal(text: &str) -> String {
    let (mut key, mut rest, mut number) = (String::new(), text, 0);
    while let Some(at) = rest.find(['{', '}']) {
        key.push_str(&rest[..at]);
        let doubled = rest[at..].starts_with("{{") || rest[at..].starts_with("}}");
        if doubled || rest[at..].starts_with('}') {
            let length = if doubled { 2 } else { 1 };
            key.push_str(&rest[at..at + length]);
            rest = &rest[at + length..];
            continue;
        }
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end);
        let name = rest[at + 1..end].split(':').next().unwrap_or_default().trim();
        if name.is_empty() {
            key.push_str(&format!("{{{number}}}"));
            number += 1;
        } else {
            key.push_str(&format!("{{{name}}}"));
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    key + rest
}

impl Template {
    /// Reads a key or its translation.
    pub(super) fn parse(text: &str) -> Self {
        let (mut parts, mut literal) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                literal.push(c);
                rest = after;
            } else if let (true, Some(end)) = (c == '{', rest.find('}')) {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Hole(rest[1..end].to_owned()));
                rest = &rest[end + 1..];
            } else {
                literal.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self(parts)
    }

    /// The text with values in its holes.
    pub(super) fn fill(&self, values: &[(String, String)]) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Hole(hole) => {
                values.iter().find(|(name, _)| name == hole).map_or_else(String::new, |(_, v)| v.clone())
            }
        };
        self.0.iter().map(part).collect()
    }

    /// What stands in the holes of a message that was made of this template, if it was.
    pub(super) fn values(&self, message: &str) -> Option<Vec<(String, String)>> {
        let (mut values, mut steps) = (Vec::new(), MOST_STEPS);
        find(&self.0, message, &mut values, &mut steps).then_some(values)
    }

    /// Whether all that is fixed in it occurs in a message.
    pub(super) fn may_be(&self, message: &str) -> bool {
        self.0
            .iter()
            .all(|part| if let Part::Text(text) = part { message.contains(text.as_str()) } else { true })
    }

    /// How much of it is fixed: the more, the surer is a match.
    pub(super) fn fixed(&self) -> usize {
        self.0.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 0 }).sum()
    }

    pub(super) fn has_holes(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Hole(_)))
    }

    /// Whether it says enough to be recognised: a text that is fixed, or two words beside its holes.
    pub(super) fn is_telling(&self) -> bool {
        let words = |part: &Part| match part {
            Part::Text(text) => {
                text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 1).count()
            }
            Part::Hole(_) => 0,
        };
        !self.has_holes() || self.0.iter().map(words).sum::<usize>() > 1
    }
}

/// Matches parts from left to right, each hole as short as it can be.
fn find(parts: &[Part], text: &str, values: &mut Vec<(String, String)>, steps: &mut usize) -> bool {
    let Some(left) = steps.checked_sub(1) else { return false };
    *steps = left;
    match parts {
        [] => text.is_empty(),
        [Part::Text(fixed), rest @ ..] => {
            text.strip_prefix(fixed.as_str()).is_some_and(|text| find(rest, text, values, steps))
        }
        [Part::Hole(name)] => {
            values.push((name.clone(), text.to_owned()));
            true
        }
        [Part::Hole(name), rest @ ..] => {
            let ends: Vec<usize> = match rest {
                [Part::Text(fixed), ..] => text.match_indices(fixed.as_str()).map(|(at, _)| at).collect(),
                _ => vec![0],
            };
            for end in ends {
                values.push((name.clone(), text[..end].to_owned()));
                if find(rest, &text[end..], values, steps) {
                    return true;
                }
                values.pop();
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_strings_become_keys() {
        assert_eq!(normal("{} of {x:?}, {:.1} %, {{a}} {0}"), "{0} of {x}, {1} %, {{a}} {0}");
        assert_eq!(Template::parse("{{a}} {b}").fill(&[("b".into(), "c".into())]), "{a} c");
    }

    #[test]
    fn values_are_found_again() {
        let values = |template: &str, message: &str| {
            let values = Template::parse(template).values(message)?;
            Some(values.into_iter().map(|(_, value)| value).collect::<Vec<_>>().join("|"))
        };
        assert_eq!(values("could not {action} {0}", "could not read a b"), Some("read|a b".into()));
        assert_eq!(values("{0} is {1}.", "this is is it."), Some("this|is it".into()));
        assert_eq!(values("{a}{b} end", "xy end"), Some("|xy".into()));
        assert_eq!(values("all", "all"), Some(String::new()));
        assert_eq!(values("{a} of {b}", "nothing"), None);
    }

    #[test]
    fn a_message_that_fits_in_too_many_ways_is_given_up() {
        let template = Template::parse("{a} {b} {c} {d} {e} {f} {g} {h}!");
        assert_eq!(template.values(&"x ".repeat(5000)), None);
    }
}
