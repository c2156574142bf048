//! `minigpt serve`: models over HTTP, for everything that speaks OpenAI's interface or llama.cpp's.

mod browser;
mod log;
mod named;
mod page;

use crate::arguments::numbers;
use crate::language::local;
use crate::language::messages::serve as message;
use crate::models::{ContextArgs, LoadArgs};
use crate::{allocator, dtype, output};
use anyhow::{Context, Result, ensure};
use clap::Args;
use log::{Log, LogFormat};
use minigpt::ModelFolder;
use minigpt_charts::{bytes, count};
use minigpt_generate::EngineConfig;
use minigpt_model::plan::Plan;
use minigpt_serve::{ModelParts, Running, ServeConfig, ServedModel, Server};
use named::Named;
pub use page::show_run;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Texts at once where nobody says it, as long as their keys and values take no more than this.
const SLOTS: usize = 16;
const SLOT_BYTES: u64 = 1 << 30;

/// Serve models over HTTP with OpenAI's and llama.cpp's APIs.
#[derive(Args)]
pub struct ServeArgs {
    /// Models, as for --model.
    #[arg(value_name = "[NAME=]MODEL")]
    in_position: Vec<String>,
    /// Model to serve: a model folder, a run, a GGUF file, nanoGPT's ckpt.pt or hf:owner/name; NAME=MODEL sets its name
    /// for clients. Can be repeated; requests without a model use the first. Default: the latest demo.
    #[arg(short, long = "model", value_name = "[NAME=]MODEL")]
    models: Vec<String>,
    /// Another name for the first model; can be repeated.
    #[arg(short, long, value_name = "NAME")]
    alias: Vec<String>,
    /// Address or host name to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port; 0 for any free port.
    #[arg(long, default_value_t = 8080, value_parser = numbers::whole::<u16>)]
    port: u16,
    /// API key that clients must send; can be repeated. MINIGPT_API_KEY does the same without showing it to other users.
    #[arg(long = "api-key", value_name = "KEY")]
    api_keys: Vec<String>,
    /// Origin whose pages may use the server, such as https://chat.example.org, app://obsidian.md or
    /// chrome-extension://*; * for all. Can be repeated.
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Host name by which clients may reach the server, such as host.docker.internal; can be repeated.
    #[arg(long = "allowed-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Refuse requests for unknown models; otherwise a single model answers to any name.
    #[arg(long)]
    strict_model: bool,
    /// Texts to generate at the same time [default: 16, or as many as fit into 1 GiB of key/value cache]
    #[arg(long, visible_alias = "np", value_name = "N", value_parser = numbers::within::<u16>(1, 1024))]
    parallel: Option<u16>,
    /// Maximum number of waiting requests; further ones are refused.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = numbers::whole::<usize>)]
    max_queue: usize,
    /// Target time per step in milliseconds: a long prompt delays other requests by about this at most.
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = numbers::at_least::<u16>(1))]
    step_ms: u16,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    window: ContextArgs,
    /// Seconds a client has to read the next bytes of its answer.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = numbers::at_least::<u32>(1))]
    timeout: u32,
    /// Seconds that running requests have to finish when the server stops.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = numbers::whole::<u32>)]
    shutdown_timeout: u32,
    /// Format of the request log on standard error, one line per request.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,
    /// Folder of training runs to show on the page.
    #[arg(long, value_name = "FOLDER")]
    runs: Option<PathBuf>,
    /// Serve only the APIs, without the page.
    #[arg(long)]
    no_page: bool,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
    /// Print the server's address as JSON on standard output when it is ready.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ServeArgs) -> Result<()> {
    let mut named: Vec<Named> =
        args.in_position.iter().chain(&args.models).map(|model| Named::parse(model)).collect();
    if named.is_empty() {
        named.push(named::last_demo()?);
    }
    if let Some(runs) = args.runs.as_deref().filter(|runs| !runs.is_dir()) {
        ensure!(!runs.exists(), "{}", message::RunsIsAFile { runs: &runs.display() });
        output::note(message::NoRunsYet { runs: &runs.display() });
    }
    allow_many_files();
    let log = Log::start(args.log_format);
    let config = args.config(&log)?;
    let (open_to_all, asks_key) = (!is_loopback(&config.host), !config.api_keys.is_empty());
    let server = page::add(Server::bind(config)?, args.runs.as_deref(), !args.no_page).start()?;
    if open_to_all && !asks_key {
        output::note(message::NoKey);
    }
    let models = allocator::giving_back(|| {
        let models = named.into_iter().enumerate().map(|(i, model)| {
            let aliases = if i == 0 { args.alias.clone() } else { Vec::new() };
            args.start(model, aliases)
        });
        models.collect::<Result<Vec<_>>>()
    })?;
    let signals = server.watch_signals()?;
    announce(&server, models, args)?;
    let waited = server.wait_for_signal(signals);
    if waited.is_ok() {
        output::note(message::Stopping);
    }
    server.stop();
    log.finish();
    Ok(waited?)
}

/// Says where the server is and what it holds, once it answers.
fn announce(server: &Running, models: Vec<ServedModel>, args: &ServeArgs) -> Result<()> {
    let address = format!("http://{}", server.address());
    let mut said = Vec::new();
    for model in &models {
        let cache = model.engine.status().memory_bytes as u64;
        output::note(message::ModelReady {
            name: &model.name,
            parameters: &count(model.parameters),
            dtype: &model.dtype,
            bytes: &bytes(model.bytes),
            slots: &model.slots,
            context: &count(model.context as u64),
            cache: &bytes(cache),
            format: &local(&model.format),
        });
        said.push(json!({
            "name": model.name, "dtype": model.dtype, "parallel": model.slots, "context": model.context,
            "weights_bytes": model.bytes, "cache_bytes": cache,
        }));
    }
    server.serve(models)?;
    output::note(message::Listening { address: &address });
    if args.json {
        output::json(&json!({ "address": address, "models": said }))?;
    }
    if args.open {
        browser::open(&address);
    }
    Ok(())
}

impl ServeArgs {
    fn config(&self, log: &Log) -> Result<ServeConfig> {
        let mut api_keys = self.api_keys.clone();
        if let Some(key) = std::env::var_os("MINIGPT_API_KEY") {
            api_keys.push(key.into_string().ok().context(message::ApiKeyNotText)?);
        }
        Ok(ServeConfig {
            host: self.host.clone(),
            port: self.port,
            api_keys,
            cors_origins: self.cors_origins.clone(),
            allowed_hosts: self.allowed_hosts.clone(),
            strict_model: self.strict_model,
            write_timeout: Duration::from_secs(self.timeout.into()),
            shutdown_timeout: Duration::from_secs(self.shutdown_timeout.into()),
            runs: self.runs.clone(),
            page: !self.no_page,
            on_request: Some(log.writer()),
            ..ServeConfig::default()
        })
    }

    /// Opens a model and starts its engine.
    fn start(&self, named: Named, aliases: Vec<String>) -> Result<ServedModel> {
        let model = self.window.apply(self.load.open(&named.path)?)?;
        let parts = Self::parts(named.name, aliases, model);
        let slots = self.slots(&parts);
        let config = EngineConfig {
            slots,
            max_queue: self.max_queue,
            step: Duration::from_millis(self.step_ms.into()),
            ..EngineConfig::default()
        };
        let name = parts.name.clone();
        ServedModel::start(parts, &config).with_context(|| name)
    }

    fn parts(name: Option<String>, aliases: Vec<String>, model: ModelFolder) -> ModelParts {
        let format = model.format().cloned().unwrap_or(minigpt::Format::Plain);
        let stop_ids = model.stop_ids();
        ModelParts {
            name: name.unwrap_or_else(|| named::name_of(&model.path)),
            aliases,
            path: model.path,
            dtype: dtype::names(&model.gpt),
            bytes: model.gpt.stored_bytes(),
            gpt: model.gpt,
            tokenizer: model.tokenizer,
            format,
            stop_ids,
        }
    }

    /// Texts at once: as asked for, or as many as keep below the limit.
    fn slots(&self, model: &ModelParts) -> usize {
        let config = model.gpt.config();
        let each = Plan::new(config, 1, config.block_size).cache_bytes.max(1);
        let fit = usize::try_from(SLOT_BYTES / each).unwrap_or(SLOTS).clamp(1, SLOTS);
        self.parallel.map_or(fit, usize::from)
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Lets the process have as many connections as the system allows it at most.
fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
