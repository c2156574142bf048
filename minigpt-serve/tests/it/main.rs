//! The server as its clients see it: over TCP on loopback, with small models made here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod attack;
mod chat;
mod clients;
mod completions;
mod errors;
mod llama;
mod load;
mod shutdown;
mod status;
mod support;
mod tokens;
