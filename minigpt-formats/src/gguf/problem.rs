//! What can be wrong with a GGUF file.

/// What is wrong with a GGUF file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum GgufProblem {
    #[error("not a GGUF file")]
    NotGguf,
    #[error("GGUF version {0} is not supported; versions 2 and 3 are")]
    Version(u32),
    #[error(transparent)]
    Syntax(#[from] GgufSyntaxProblem),
    #[error("{name}: {problem}")]
    Value { name: String, problem: GgufSyntaxProblem },
    #[error("general.alignment is not a multiple of 8")]
    Alignment,
    #[error("architecture {0:?} is not supported; only \"gpt2\" is")]
    Architecture(String),
    #[error("{0} is missing")]
    Missing(String),
    #[error("{name} is {value}, which is not a size")]
    NotASize { name: String, value: i64 },
    #[error("{name} has {dimensions} dimensions; tensors have at most 4")]
    Dimensions { name: String, dimensions: u32 },
    #[error("{name} is too large")]
    TooLarge { name: String },
    #[error("{name} has the unknown element type {number}")]
    ElementType { name: String, number: u32 },
    #[error("{name} does not begin at a multiple of {alignment}")]
    NotAligned { name: String, alignment: u64 },
    #[error("{name} reaches beyond the file, or its shape does not fit its type")]
    BeyondFile { name: String },
    #[error(
        "the tokenizer is {kind:?} and splits text as {pre:?}; only GPT-2's BPE is supported. Name another tokenizer, or use \
         token ids"
    )]
    Tokenizer { kind: String, pre: String },
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}

/// What is wrong with the bytes of a GGUF file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants are")]
pub enum GgufSyntaxProblem {
    #[error("the file ends early")]
    EndsEarly,
    #[error("a count is larger than the rest of the file")]
    CountTooLarge,
    #[error("a text is not UTF-8")]
    TextNotUtf8,
    #[error("a number is too large")]
    NumberTooLarge,
    #[error("a value has the unknown type {0}")]
    ValueType(u32),
    #[error("a list has the unknown type {0}")]
    ListType(u32),
    #[error("the items of a list have different types")]
    MixedList,
}
