//! What can be wrong with a pickle, and with an archive that `torch.save` wrote.

/// Why a pickle cannot be read, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (at byte {at})")]
pub struct PickleError {
    /// What is wrong.
    pub problem: PickleProblem,
    /// The byte at which the instruction begins.
    pub at: usize,
}

/// What is wrong with an instruction of a pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants are")]
pub enum PickleProblem {
    #[error("the pickle ends early")]
    EndsEarly,
    #[error("a length is too large")]
    LengthTooLarge,
    #[error("a number is too large")]
    NumberTooLarge,
    #[error("a text is not UTF-8")]
    TextNotUtf8,
    #[error("a name does not end")]
    NameWithoutEnd,
    #[error("a name is not UTF-8")]
    NameNotUtf8,
    #[error("a name is not text")]
    NameNotText,
    #[error("too many values")]
    TooManyValues,
    #[error("values are nested too deep")]
    TooDeep,
    #[error("a key has no value")]
    KeyWithoutValue,
    #[error("a value is missing")]
    MissingValue,
    #[error("a mark is missing")]
    MissingMark,
    #[error("the target of an append is not a list")]
    NotAList,
    #[error("the target of a key is not a dictionary")]
    NotADictionary,
    #[error("a memo slot is out of range")]
    SlotOutOfRange,
    #[error("a memo slot is empty")]
    SlotEmpty,
    #[error("instruction 0x{0:02x} is not allowed: data does not need it")]
    Instruction(u8),
}

/// What is wrong with an archive that `torch.save` wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum TorchProblem {
    #[error(
        "not a zip archive: written by a torch.save before version 1.6, or not a checkpoint at all ({0})"
    )]
    NotAnArchive(String),
    #[error("the archive lists too many files")]
    TooManyFiles,
    #[error("the archive is malformed: {0}")]
    Malformed(String),
    #[error("{name} is compressed, which torch.save never does")]
    Compressed { name: String },
    #[error("{name} is encrypted, which torch.save never does")]
    Encrypted { name: String },
    #[error("{name} reaches beyond the archive")]
    BeyondArchive { name: String },
    #[error("the elements are in big-endian order; only little-endian is supported")]
    BigEndian,
    #[error("has no data.pkl: not written by torch.save")]
    NoPickle,
    #[error(transparent)]
    Pickle(#[from] PickleError),
    #[error("has no dictionary of tensors")]
    NoDictionary,
    #[error("the name of a tensor is not text")]
    NameNotText,
    #[error("{name}: {problem}")]
    Tensor { name: String, problem: TorchTensorProblem },
}

/// What is wrong with the description of a tensor in a pickle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants and fields are")]
pub enum TorchTensorProblem {
    #[error("calls something without a name")]
    NamelessCall,
    #[error("calls {0}, which data does not need; it was not run")]
    Call(String),
    #[error("the description of the tensor is malformed")]
    Malformed,
    #[error("data/{key} is missing")]
    MissingData { key: String },
    #[error("the tensor reaches beyond its storage")]
    BeyondStorage,
    #[error("unknown element type {0}")]
    ElementType(String),
}
