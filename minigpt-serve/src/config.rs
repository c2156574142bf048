//! What a server is told before it starts.

use crate::record::RequestRecord;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is done with the record of each request.
pub type OnRequest = Arc<dyn Fn(&RequestRecord) + Send + Sync>;

/// How a server behaves, whatever its models are.
#[derive(Clone)]
pub struct ServeConfig {
    /// The name or address to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Keys of which a client must give one; none are asked for if there are none.
    pub api_keys: Vec<String>,
    /// Origins of pages elsewhere that may use this server; `scheme://*` for all of a scheme, `*` for all.
    pub cors_origins: Vec<String>,
    /// Names by which clients may reach this server, beside its address and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Whether a request must name a model that is served. Otherwise the only model answers to any name.
    pub strict_model: bool,
    /// The largest body of a request, in bytes.
    pub body_limit: usize,
    /// How long a client may take for the head of a request, and for its body.
    pub request_timeout: Duration,
    /// How long a connection is kept on which nothing is asked.
    pub idle_timeout: Duration,
    /// How long a client may take to accept the next bytes of an answer.
    pub write_timeout: Duration,
    /// How long running requests may go on after the server is told to stop.
    pub shutdown_timeout: Duration,
    /// Connections at the same time; more wait until one ends.
    pub max_connections: usize,
    /// A folder with training runs, for routes that show them; this crate has none.
    pub runs: Option<PathBuf>,
    /// Whether a page is wanted, for whoever adds one.
    pub page: bool,
    /// Called once a request, when its answer has gone out or its client has gone away.
    pub on_request: Option<OnRequest>,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            strict_model: false,
            body_limit: 8 << 20,
            request_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(600),
            shutdown_timeout: Duration::from_secs(10),
            max_connections: 4096,
            runs: None,
            page: true,
            on_request: None,
        }
    }
}

impl fmt::Debug for ServeConfig {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeConfig")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("keys", &self.api_keys.len())
            .finish_non_exhaustive()
    }
}
