//! What can be wrong with the files of a Hugging Face folder.

/// What is wrong with `config.json`, or with a file of weights.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum HuggingFaceProblem {
    #[error("not a JSON object: {0}")]
    NotJson(String),
    #[error("model type {0:?} is not supported; \"gpt2\" and \"minigpt\" are")]
    ModelType(String),
    #[error("model_type is not a string")]
    ModelTypeNotText,
    #[error("{key} is {value}; only {supported} is supported")]
    NotSupported { key: &'static str, value: String, supported: bool },
    /// `problem` is serde's text.
    #[error("{key} is {value}: {problem}")]
    Value { key: String, value: String, problem: String },
    #[error("has no weights: none of {}", names.join(", "))]
    NoWeights { names: &'static [&'static str] },
    #[error("not an index of weights: {0}")]
    NotAnIndex(String),
    #[error("names the file {file:?}, which is not beside it")]
    NotBeside { file: String },
    #[error("not a safetensors file, or a malformed one: {0}")]
    NotSafetensors(String),
    #[error("the header has {name} twice")]
    Twice { name: String },
    #[error("{name} is malformed")]
    Malformed { name: String },
    #[error(transparent)]
    Model(#[from] minigpt_model::Error),
}
