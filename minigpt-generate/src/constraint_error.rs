//! Errors of schemas, regular expressions and grammars.

/// Why a schema or grammar can't be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum ConstraintProblem {
    #[error("the tokens of the vocabulary have {bytes} bytes; at most {most} are supported")]
    VocabularyTooLarge { bytes: usize, most: usize },
    #[error("{bytes} bytes are too many: at most {most} are allowed")]
    TooLarge { bytes: usize, most: usize },
    #[error("no thread could be started to compile it: {0}")]
    NoThread(String),
    #[error("no token of the vocabulary can begin a text that follows it")]
    NoFirstToken,
    #[error("the vocabulary has no token with which the text could go on")]
    NoNextToken,
    #[error("there is nothing to choose from")]
    NoChoices,
    #[error("no value satisfies the schema false")]
    FalseSchema,
    #[error("a schema must be an object")]
    NotAnObject,
    #[error("{0} is not supported in a schema")]
    Keyword(&'static str),
    #[error("multipleOf must be from {least} to {most}")]
    MultipleOf { least: f64, most: f64 },
    #[error("nested more than {0} levels deep")]
    TooDeep(usize),
    #[error("oneOf is only supported if its alternatives exclude each other: use anyOf")]
    OverlappingOneOf,
    #[error("it is too ambiguous or too large: there are too many ways to read the text so far")]
    TooAmbiguous,
    #[error("{0}")]
    Gbnf(#[from] GbnfError),
    /// In the words of the grammar engine.
    #[error("{0}")]
    Engine(String),
}

/// An error in a GBNF grammar. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum GbnfError {
    #[error("the grammar has no rule named root")]
    NoRoot,
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: GbnfProblem },
}

/// What is wrong with a line of a GBNF grammar.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each variant says what it is")]
pub enum GbnfProblem {
    #[error("there is no rule named {0}")]
    NoRule(String),
    #[error("expected the name of a rule")]
    ExpectedName,
    #[error("expected ::= after {0}")]
    ExpectedDefinition(String),
    #[error("expected the end of the line")]
    ExpectedLineEnd,
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("expected {0} before the end of the line")]
    ExpectedBeforeLineEnd(&'static str),
    #[error("expected a character after \\")]
    ExpectedEscape,
    #[error("the rule {0} is defined twice")]
    DuplicateRule(String),
    #[error("tokens such as <name> and <[1]> are not supported: write their text")]
    Token,
    #[error("nothing to repeat before {0}")]
    NothingToRepeat(char),
    #[error("parentheses are nested more than {0} levels deep")]
    TooDeep(usize),
    #[error("too many repetitions of repetitions")]
    TooManyRepetitions,
    #[error("a repetition has one number, or two with the smaller one first, up to {0}")]
    Repetition(u32),
    #[error("the range of a character class ends before it begins")]
    ReversedRange,
    #[error("a character class without characters")]
    EmptyClass,
    #[error("unknown escape \\{0}")]
    UnknownEscape(char),
    #[error("\\{escape} needs {digits} hexadecimal digits of a character")]
    EscapeDigits { escape: char, digits: usize },
    #[error("more than {0} rules")]
    TooManyRules(usize),
}
