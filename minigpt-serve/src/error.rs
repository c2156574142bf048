//! What keeps a server from starting.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The crate's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can't be listened on.
    #[error("could not listen on {host}:{port}")]
    Bind {
        /// The host that was asked for.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// The host to listen on has no address.
    #[error("host {host:?} is unknown")]
    UnknownHost {
        /// The host.
        host: String,
    },
    /// The system gave no threads.
    #[error("could not start the threads of the server")]
    Threads(#[source] std::io::Error),
    /// An origin that is none.
    #[error("{0} is not an origin: write scheme://host[:port], scheme://* for all of a scheme, or * for any")]
    Origin(String),
    /// An allowed host that is not a name.
    #[error(
        "{0:?} is not the name of a host: write it without scheme and path, such as host.docker.internal"
    )]
    Host(String),
    /// A name that can't stand in a header.
    #[error(
        "the key is empty, or has characters that no header can carry: use letters, digits and punctuation of ASCII"
    )]
    Key,
    /// Two models of one name.
    #[error("two models are named {0}: give one of them another name")]
    SameName(String),
    /// The engine of a model ended because of a mistake in the program.
    #[error("the engine of {model} has ended after an internal error: {message}")]
    EngineFailed {
        /// The model.
        model: String,
        /// What went wrong.
        message: String,
    },
    /// No engine for a model.
    #[error(transparent)]
    Engine(#[from] minigpt_generate::Error),
}
