//! What is refused before the parser sees it: the engine's parser and compiler call themselves once for each operator of
//! a chain and each bracket, and only some of that do they count.

use super::bounds::refuse;
use crate::error::TemplateProblem;
use minijinja::Error;
use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use std::borrow::Cow;
use std::collections::HashSet;

/// The longest text that may be the name of something.
const LONGEST_NAME: usize = 100;
/// The longest template of a model that we know has 30 KB.
const LONGEST: usize = 1 << 20;
/// How deep an expression may be: its operators, names and brackets between commas, added up from the outside in.
const DEEPEST: usize = 2000;
/// `elif`s of the whole template, each of which lies inside the one before.
const MOST_BRANCHES: usize = 500;

/// Whether the source is small and flat enough to be parsed.
pub(super) fn check(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    if source.len() > LONGEST {
        return refuse(TemplateProblem::SourceTooLong);
    }
    // What stands in each open bracket since the last comma.
    let mut chains = vec![0];
    let mut depth = 0;
    let mut branches = 0;
    for token in tokenize(source, false, syntax.clone()) {
        match token?.0 {
            Token::VariableStart | Token::BlockStart => {
                chains = vec![0];
                depth = 0;
            }
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                chains.push(0);
                depth += 1;
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                // The pair stays as one link of the chain that it stands in.
                match chains.pop() {
                    Some(inside) if !chains.is_empty() => depth -= inside,
                    _ => return refuse(TemplateProblem::UnopenedBracket),
                }
                if let Some(chain) = chains.last_mut() {
                    *chain += 1;
                }
            }
            Token::Comma => {
                if let Some(chain) = chains.last_mut() {
                    depth -= std::mem::take(chain);
                }
            }
            Token::Ident("elif") => branches += 1,
            token if links(&token) => {
                depth += 1;
                if let Some(chain) = chains.last_mut() {
                    *chain += 1;
                }
            }
            _ => {}
        }
        if depth > DEEPEST {
            return refuse(TemplateProblem::ExpressionTooDeep(DEEPEST));
        }
        if branches > MOST_BRANCHES {
            return refuse(TemplateProblem::TooManyBranches(MOST_BRANCHES));
        }
    }
    Ok(())
}

/// All names that the program mentions, as variables, attributes or keys.
pub(crate) fn names(source: &str) -> HashSet<String> {
    let name = |token: Result<(Token<'_>, _), Error>| match token.ok()?.0 {
        Token::Ident(text) | Token::Str(text) => Some(text.to_owned()),
        Token::String(text) => Some(text.to_string()),
        _ => None,
    };
    let short = |name: &String| name.len() <= LONGEST_NAME;
    tokenize(source, false, SyntaxConfig::default()).filter_map(name).filter(short).collect()
}

/// The source with `{% generation %}` and `{% endgeneration %}`, by which transformers finds what the model said when it trains,
/// as a block that does nothing. The engine does not know them.
pub(super) fn without_generation(source: &str) -> Cow<'_, str> {
    let mut plain = String::new();
    let (mut rest, mut raw) = (source, false);
    while let Some(start) = rest.find('{') {
        let (before, tag) = rest.split_at(start);
        plain.push_str(before);
        let end = match tag.as_bytes().get(1) {
            Some(b'{') if !raw => end_of(tag, "}}"),
            Some(b'#') if !raw => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'%') => end_of(tag, "%}"),
            _ => 1,
        };
        let (tag, after) = tag.split_at(end);
        rest = after;
        let inside = tag.strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}")).unwrap_or_default();
        let name = inside.trim_matches(['-', '+']).trim();
        let instead = match name {
            "generation" if !raw => "with",
            "endgeneration" if !raw => "endwith",
            _ => {
                raw = if raw { name != "endraw" } else { name == "raw" };
                name
            }
        };
        if name == instead { plain.push_str(tag) } else { plain.push_str(&tag.replacen(name, instead, 1)) }
    }
    if plain.is_empty() {
        return source.into();
    }
    plain.push_str(rest);
    plain.into()
}

/// Where a tag ends that begins the text: behind what closes it, outside of its strings.
fn end_of(tag: &str, close: &str) -> usize {
    let mut quote = None;
    let mut characters = tag.char_indices().skip(2);
    while let Some((at, c)) = characters.next() {
        match quote {
            Some(_) if c == '\\' => drop(characters.next()),
            Some(open) if c == open => quote = None,
            None if tag[at..].starts_with(close) => return at + close.len(),
            None if c == '"' || c == '\'' => quote = Some(c),
            _ => {}
        }
    }
    tag.len()
}

/// Whether a token adds to the depth of the expression that it stands in. Names of variables do so too, which costs
/// nothing and keeps every word of the language in without a list of them.
fn links(token: &Token<'_>) -> bool {
    !matches!(
        token,
        Token::TemplateData(_)
            | Token::VariableEnd
            | Token::BlockEnd
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_is_a_block_only_where_the_template_has_a_tag() {
        let same = [
            "{{ '{% generation %}' }}",
            "{{ \"it's {% generation %}\" }}{{ '\\'{% endgeneration %}' }}",
            "{% set x = '%}{% generation %}' %}",
            "{# {% generation %} #}",
            "{% raw %}{% generation %}{{ ' {% endraw %}",
            "a { b {% if generation %}{% endif %}",
        ];
        for source in same {
            assert_eq!(without_generation(source), source);
        }
        let source = "{%- generation -%}{{ '}}' }}{%endgeneration%}{% raw %}{{{% endraw %}{% generation %}";
        let want = "{%- with -%}{{ '}}' }}{%endwith%}{% raw %}{{{% endraw %}{% with %}";
        assert_eq!(without_generation(source), want);
    }
}
