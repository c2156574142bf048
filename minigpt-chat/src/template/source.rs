//! What is refused before the parser sees it: the engine's parser and compiler call themselves once for each operator of
//! a chain and each bracket, and only some of that do they count.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// The longest template of a model that we know has 30 KB.
const LONGEST: usize = 1 << 20;
/// How deep an expression may be: its operators, names and brackets between commas, added up from the outside in.
const DEEPEST: usize = 2000;
/// `elif`s of the whole template, each of which lies inside the one before.
const MOST_BRANCHES: usize = 500;

/// Whether the source is small and flat enough to be parsed.
pub(super) fn check(source: &str, syntax: &SyntaxConfig) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(ErrorKind::SyntaxError, message));
    if source.len() > LONGEST {
        return refuse("it has more than 1 MiB".to_owned());
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
                    _ => return refuse("a bracket is closed that was not opened".to_owned()),
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
            return refuse(format!(
                "an expression has more than {DEEPEST} operators in a row or inside each other"
            ));
        }
        if branches > MOST_BRANCHES {
            return refuse(format!("it has more than {MOST_BRANCHES} branches"));
        }
    }
    Ok(())
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
