//! `minigpt import hf:…` against a local server that serves a small model, and misbehaves.

use crate::support::{Done, Place, foreign, minigpt, serve, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the server does with the next request for a path; otherwise it serves.
#[derive(Clone, Copy)]
enum Act {
    /// Sends half and hangs up.
    Cut,
    /// Says it is busy, and for how many seconds.
    Busy(u64),
    /// Claims another length.
    WrongLength,
    /// Sends other bytes of the same length.
    OtherBytes,
}

struct Server {
    endpoint: String,
    requests: Arc<Mutex<Vec<String>>>,
}

fn model_folder() -> PathBuf {
    foreign("shards")
}

/// The files of the model, as the hub lists them.
fn listing() -> Value {
    let files = fs::read_dir(model_folder()).unwrap().map(|entry| entry.unwrap().path());
    let siblings = files.map(|path| {
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        match name.ends_with(".safetensors") {
            true => json!({ "rfilename": name, "size": bytes.len(), "lfs": { "sha256": sha256, "size": bytes.len() } }),
            false => json!({ "rfilename": name, "size": bytes.len() }),
        }
    });
    json!({ "id": "owner/model", "sha": COMMIT, "siblings": siblings.collect::<Vec<_>>() })
}

impl Server {
    fn start(acts: &[(&str, &[Act])]) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let mut acts: HashMap<String, Vec<Act>> = acts
            .iter()
            .map(|(end, acts)| ((*end).to_owned(), acts.iter().rev().copied().collect()))
            .collect();
        let endpoint = serve(move |request| {
            let token = request.authorization.as_ref().map_or_else(String::new, |token| format!(" {token}"));
            seen.lock().unwrap().push(format!("{} {}{token}", request.path, request.start));
            let act = acts.iter_mut().find(|(end, _)| request.path.ends_with(end.as_str()));
            answer(&request.path, request.start, act.and_then(|(_, acts)| acts.pop()))
        });
        Self { endpoint, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(path: &str, start: usize, act: Option<Act>) -> Vec<u8> {
    let file = match path {
        "/api/models/owner/model/revision/main?blobs=true" => Some(listing().to_string().into_bytes()),
        path => path
            .strip_prefix(&format!("/owner/model/resolve/{COMMIT}/"))
            .and_then(|name| fs::read(model_folder().join(name)).ok()),
    };
    let Some(mut bytes) = file else {
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    };
    if let Some(Act::Busy(seconds)) = act {
        let busy = format!(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        return busy.into_bytes();
    }
    if let Some(Act::OtherBytes) = act {
        bytes.iter_mut().for_each(|byte| *byte ^= 1);
    }
    let total = if let Some(Act::WrongLength) = act { bytes.len() + 7 } else { bytes.len() };
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nETag: \"v1\"\r\nContent-Length: {}\r\nConnection: close\r\n",
        total - start
    );
    if start > 0 {
        answer.push_str(&format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1));
    }
    let body = &bytes[start..];
    let body = if let Some(Act::Cut) = act { &body[..body.len() / 2] } else { body };
    [answer.as_bytes(), b"\r\n", body].concat()
}

/// Imports `hf:NAME` with a cache and a token of its own.
fn import(server: &Server, place: &Place, name: &str, more: &[(&str, &str)]) -> Done {
    let (name, out) = (format!("hf:{name}"), place.path("model"));
    let program = minigpt(&["import", &name, "--json", "--force", "--out", text(&out)])
        .env("MINIGPT_CACHE", place.path("cache"))
        .env("HF_ENDPOINT", &server.endpoint)
        .env("HF_TOKEN", "secret")
        .without_env("HF_HUB_OFFLINE");
    more.iter().fold(program, |program, (name, value)| program.env(name, value)).run()
}

#[test]
fn a_model_comes_in_shards_over_a_bad_line_and_then_needs_no_network() {
    let place = Place::new();
    let server = Server::start(&[
        ("blobs=true", &[Act::Busy(0)]),
        ("model-00002-of-00004.safetensors", &[Act::Cut, Act::Cut]),
        ("config.json", &[Act::Busy(1)]),
    ]);
    let output = import(&server, &place, "owner/model", &[]);
    assert_eq!(output.success().json()["kind"], "Hugging Face folder");
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.ends_with(" bearer secret")), "{requests:?}");
    let shard: Vec<_> = requests.iter().filter(|request| request.contains("00002-of")).collect();
    assert_eq!(shard.len(), 3, "{shard:?}");
    assert!(
        shard[1].contains(" 10268 ") && shard[2].contains(" 15402 "),
        "it goes on where it stopped: {shard:?}"
    );
    let asked = requests.len();
    // Nothing but the list of files is asked for again, and nothing at all offline.
    import(&server, &place, "owner/model", &[]).success();
    assert_eq!(server.requests().len(), asked + 1);
    import(&server, &place, "owner/model", &[("HF_HUB_OFFLINE", "1")]).success();
    assert_eq!(server.requests().len(), asked + 1);
}

#[test]
fn what_the_server_gets_wrong_is_said_and_not_kept() {
    let place = Place::new();
    let server = Server::start(&[("model-00001-of-00004.safetensors", &[Act::OtherBytes])]);
    let refusal = import(&server, &place, "owner/model", &[]).code(1);
    let error = refusal.stderr();
    assert!(error.contains("model-00001-of-00004.safetensors") && error.contains("SHA-256"), "{error}");
    assert!(!place.path("model").exists());
    import(&server, &place, "owner/model", &[]).success();

    let place = Place::new();
    let server = Server::start(&[("model-00003-of-00004.safetensors", &[Act::WrongLength])]);
    let refusal = import(&server, &place, "owner/model", &[]).code(1);
    let error = refusal.stderr();
    assert!(error.contains("19215 bytes there, 19208 are expected"), "{error}");
}

#[test]
fn names_that_lead_elsewhere_or_nowhere_are_refused() {
    let place = Place::new();
    let server = Server::start(&[]);
    let error =
        |name: &str, more: &[(&str, &str)]| import(&server, &place, name, more).code(1).stderr().to_owned();
    assert!(error("owner/nothing", &[]).contains("the hub has no model owner/nothing"));
    for name in ["../../etc", "a/b/c", "owner/..", "", "owner/model@../x", "owner/mo del"] {
        let error = error(name, &[]);
        assert!(error.contains("is not a"), "{name}: {error}");
    }
    assert!(error("owner/model", &[("HF_HUB_OFFLINE", "1")]).contains("is not in the cache"));
    let nobody = [("HF_ENDPOINT", "http://127.0.0.1:1")];
    assert!(error("owner/model", &nobody).contains("127.0.0.1:1"));
}
