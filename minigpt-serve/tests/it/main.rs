//! The server as its clients see it: over TCP on loopback, with small models made here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod attack;
mod chat;
mod clients;
mod completions;
mod embeddings;
mod errors;
mod fields;
mod llama;
mod load;
mod responses;
mod runs;
mod shutdown;
mod status;
mod structured;
mod support;
mod tokens;
mod tools;
