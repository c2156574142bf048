//! Models over HTTP: OpenAI's interface and llama.cpp's, over the engine of `minigpt-generate`.
//!
//! Begin reading with [`Server`]. A request passes, from outside to inside: `connections` (sockets, their timeouts, shutdown) →
//! `access` (hosts, origins, keys) → `body` (JSON within limits) → `fields` (what is done, refused and ignored) → a route in
//! `routes/`, which reads what was asked for (`settings`, `prompts`, `messages`), has it written (`texts`, of which `job` knows the
//! engine and `writing` one text; `budget` limits what one request may ask for, `backlog` what may wait for a slow client, `large_answer` what a short answer may become) and
//! answers as a whole or as events (`events`). Whatever goes wrong becomes a [`Problem`], the one shape of an error. `record` is what is told about each
//! request; this crate prints nothing.
//!
//! Everything here waits and never computes: the engine has threads of its own, so `/health` and `/slots` answer at once
//! whatever is computed.
//!
//! Another crate adds routes with [`Server::merge`] and [`Server::merge_public`]; its handlers get the [`App`], and with it the
//! models.
//!
//! ```
//! use minigpt_serve::{ServeConfig, ServedModel, Server};
//!
//! # fn open() -> ServedModel {
//! #     let tokenizer = minigpt_tokenizer::CharTokenizer::from_text(&[], "ab".chars()).unwrap();
//! #     let shape = minigpt_model::Config { n_layer: 1, n_head: 1, n_embd: 8, block_size: 8, vocab_size: 2, ..Default::default() };
//! #     let parts = minigpt_serve::ModelParts {
//! #         name: "small".into(), aliases: vec![], path: "nowhere".into(), stop_ids: vec![], dtype: "f32".into(), bytes: 0,
//! #         gpt: minigpt_model::Gpt::new(shape, 1, &minigpt_model::Device::Cpu).unwrap(),
//! #         tokenizer: Some(minigpt_tokenizer::Tokenizer::Char(tokenizer)), format: minigpt_chat::Format::Plain,
//! #     };
//! #     ServedModel::start(parts, &minigpt_generate::EngineConfig { slots: 1, ..Default::default() }).unwrap()
//! # }
//! let running = Server::bind(ServeConfig { port: 0, ..ServeConfig::default() })?.start()?;
//! println!("http://{} says that its models are being loaded", running.address());
//! running.serve(vec![open()])?; // `ServedModel::start` makes one of its parts
//! running.stop();
//! # Ok::<(), minigpt_serve::Error>(())
//! ```

mod access;
mod app;
mod backlog;
mod body;
mod budget;
mod config;
mod connections;
mod error;
mod events;
mod fields;
mod inspect;
mod job;
mod large_answer;
mod logprobs;
mod messages;
mod openapi;
mod page;
mod problem;
mod prompts;
mod record;
mod routes;
mod runs;
mod sampling;
mod served_model;
mod server;
mod settings;
mod structured;
mod texts;
mod timed_stream;
mod writing;

pub use app::App;
pub use body::JsonBody;
pub use config::ServeConfig;
pub use error::{Error, Result};
pub use page::{OpenSnapshot, OpenedModel, PageConfig};
pub use problem::Problem;
pub use record::RequestRecord;
pub use served_model::{ModelParts, ServedModel};
pub use server::{Running, Server, Signals};

/// What the routes of another crate are made of.
pub use axum;
/// What their descriptions are made of.
pub use utoipa;
