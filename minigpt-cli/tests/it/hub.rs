//! `minigpt import hf:…` against a local server that serves a small model, and misbehaves.

use crate::support::{Done, Place, Request, foreign, minigpt, serve, text};
use serde_json::{Value, json};
use sha1::Sha1;
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git_hash(bytes: &[u8]) -> String {
    hex(&Sha1::new_with_prefix(format!("blob {}\0", bytes.len())).chain_update(bytes).finalize())
}

/// The files of the model, as the hub lists them.
fn listing() -> Value {
    let files = fs::read_dir(model_folder()).unwrap().map(|entry| entry.unwrap().path());
    let siblings = files.map(|path| {
        let (name, bytes) = (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        let sha256 = hex(&Sha256::digest(&bytes));
        if name.ends_with(".safetensors") { json!({ "rfilename": name, "size": bytes.len(), "lfs": { "sha256": sha256, "size": bytes.len() } }) } else { json!({ "rfilename": name, "size": bytes.len(), "blobId": git_hash(&bytes) }) }
    });
    json!({ "id": "owner/model", "sha": COMMIT, "siblings": siblings.collect::<Vec<_>>() })
}

/// A request in a line.
fn noted(request: &Request) -> String {
    let token = request.authorization.as_ref().map_or_else(String::new, |token| format!(" {token}"));
    format!("{} {}{token}", request.path, request.start)
}

impl Server {
    /// Sends every request for a file on to `elsewhere`, and answers the others itself.
    fn that_redirects_to(elsewhere: &str) -> Self {
        let (requests, elsewhere) = (Arc::new(Mutex::new(Vec::new())), elsewhere.to_owned());
        let seen = Arc::clone(&requests);
        let endpoint = serve(move |request| {
            seen.lock().unwrap().push(noted(request));
            if request.path.contains("/resolve/") {
                redirect(&format!("{elsewhere}{}", request.path))
            } else {
                answer(&request.path, 0, None)
            }
        });
        Self { endpoint, requests }
    }

    /// Answers every request with this list of files.
    fn that_lists(listing: Value) -> Self {
        let endpoint = serve(move |_| ok(listing.to_string().as_bytes()));
        Self { endpoint, requests: Arc::default() }
    }

    fn start(acts: &[(&str, &[Act])]) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let mut acts: HashMap<String, Vec<Act>> = acts
            .iter()
            .map(|(end, acts)| ((*end).to_owned(), acts.iter().rev().copied().collect()))
            .collect();
        let endpoint = serve(move |request| {
            seen.lock().unwrap().push(noted(request));
            let act = acts.iter_mut().find(|(end, _)| request.path.ends_with(end.as_str()));
            answer(&request.path, request.start, act.and_then(|(_, acts)| acts.pop()))
        });
        Self { endpoint, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
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
fn a_model_is_used_by_its_name_and_the_hub_is_asked_the_first_time_only() {
    let (place, server) = (Place::new(), Server::start(&[]));
    let write = |name: &str| {
        minigpt(&["generate", "--model", name, "--ids", "1,2", "--max-new-tokens", "2", "--json"])
            .env("MINIGPT_CACHE", place.path("cache"))
            .env("HF_ENDPOINT", &server.endpoint)
            .without_env("HF_HUB_OFFLINE")
            .run()
    };
    let first = write("hf:owner/model").success();
    assert!(first.stderr().contains("fetching config.json"), "{}", first.stderr());
    let asked = server.requests().len();
    let again = write("hf:owner/model").success();
    assert_eq!(
        (again.json()["completions"].clone(), again.stderr()),
        (first.json()["completions"].clone(), "")
    );
    assert_eq!(server.requests().len(), asked, "the cache is enough");
    // A damaged file is fetched again.
    let weights = place.path(&format!("cache/hub/owner--model/{COMMIT}/model-00001-of-00004.safetensors"));
    fs::write(weights, "damaged").unwrap();
    let mended = write("hf:owner/model").success();
    assert!(mended.stderr().contains("damaged"), "{}", mended.stderr());
    assert!(server.requests().len() > asked);
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

    // A small file has no SHA-256, but git's hash. Nothing of what came is left.
    let place = Place::new();
    let server = Server::start(&[("/config.json", &[Act::OtherBytes])]);
    let refusal = import(&server, &place, "owner/model", &[]).code(1);
    let (error, expected) =
        (refusal.stderr(), git_hash(&fs::read(model_folder().join("config.json")).unwrap()));
    assert!(error.contains("/config.json is not the expected file") && error.contains(&expected), "{error}");
    assert!(!cached(&place).iter().any(|name| name.starts_with("config.json")), "{:?}", cached(&place));

    let place = Place::new();
    let server = Server::start(&[("model-00003-of-00004.safetensors", &[Act::WrongLength])]);
    let refusal = import(&server, &place, "owner/model", &[]).code(1);
    let error = refusal.stderr();
    assert!(error.contains("has 19215 bytes, not 19208"), "{error}");
}

/// What the cache holds of the model.
fn cached(place: &Place) -> Vec<String> {
    place.names(&format!("cache/hub/owner--model/{COMMIT}"))
}

#[test]
fn a_damaged_file_of_the_cache_is_noticed_and_fetched_again() {
    let (place, server) = (Place::new(), Server::start(&[]));
    import(&server, &place, "owner/model", &[]).success();
    let whole = server.requests().len();
    let folder = format!("cache/hub/owner--model/{COMMIT}");
    let shard = "model-00002-of-00004.safetensors";
    let bytes = place.read(&format!("{folder}/{shard}"));

    let mut flipped = bytes.clone();
    flipped[300] ^= 1;
    for damaged in [&bytes[..100], &flipped] {
        place.write(&format!("{folder}/{shard}"), damaged);
        let offline = import(&server, &place, "owner/model", &[("HF_HUB_OFFLINE", "1")]).code(1);
        assert!(offline.stderr().contains("damaged: SHA-256"), "{}", offline.stderr());
        let before = server.requests().len();
        let done = import(&server, &place, "owner/model", &[]).success();
        assert!(done.stderr().contains(&format!("{shard}: the cached file is damaged")), "{}", done.stderr());
        assert_eq!(server.requests().len(), before + 2, "the list and the one file");
        assert_eq!(place.read(&format!("{folder}/{shard}")), bytes);
    }
    // Touched but the same: hashed again, not fetched.
    place.write(&format!("{folder}/{shard}"), &bytes);
    import(&server, &place, "owner/model", &[("HF_HUB_OFFLINE", "1")]).success();
    import(&server, &place, "owner/model", &[]).success();
    assert_eq!(server.requests().len(), whole + 5);

    fs::remove_file(place.path(&format!("{folder}/config.json"))).unwrap();
    let offline = import(&server, &place, "owner/model", &[("HF_HUB_OFFLINE", "1")]).code(1);
    assert!(offline.stderr().contains("config.json is missing"), "{}", offline.stderr());
}

#[test]
fn a_token_stays_with_its_server() {
    // The same machine, but another host: 127.0.0.1 sends us on to localhost, and to another port of its own.
    let files = Server::start(&[]);
    for elsewhere in [files.endpoint.replace("127.0.0.1", "localhost"), files.endpoint.clone()] {
        let (place, hub) = (Place::new(), Server::that_redirects_to(&elsewhere));
        import(&hub, &place, "owner/model", &[]).success();
        assert!(
            hub.requests().iter().all(|request| request.ends_with(" bearer secret")),
            "{:?}",
            hub.requests()
        );
    }
    let requests = files.requests();
    assert!(requests.len() >= 10, "{requests:?}");
    assert!(requests.iter().all(|request| !request.contains("secret")), "{requests:?}");
}

#[test]
fn a_token_follows_to_another_place_of_its_own_server() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let endpoint = serve(move |request| {
        seen.lock().unwrap().push(noted(request));
        match request.path.strip_prefix("/moved") {
            Some(path) => answer(path, request.start, None),
            None => redirect(&format!("/moved{}", request.path)),
        }
    });
    let server = Server { endpoint, requests };
    import(&server, &Place::new(), "owner/model", &[]).success();
    assert!(
        server.requests().iter().all(|request| request.ends_with(" bearer secret")),
        "{:?}",
        server.requests()
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_token_is_not_sent_over_plain_http() {
    // Leads to this machine, but does not look like it.
    let mut server = Server::start(&[]);
    server.endpoint = server.endpoint.replace("127.0.0.1", "0.0.0.0");
    let none = ["HTTP_PROXY", "http_proxy"].map(|name| (name, ""));
    import(&server, &Place::new(), "owner/model", &none).success();
    let requests = server.requests();
    assert!(
        !requests.is_empty() && requests.iter().all(|request| !request.contains("secret")),
        "{requests:?}"
    );

    let closed =
        serve(|_| b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec());
    let server = Server { endpoint: closed.replace("127.0.0.1", "0.0.0.0"), requests: Arc::default() };
    let refusal = import(&server, &Place::new(), "owner/model", &none).code(1);
    assert!(
        refusal.stderr().contains("the token was not sent, because this is plain http"),
        "{}",
        refusal.stderr()
    );
}

#[test]
fn redirects_end() {
    let endpoint = serve(|request| redirect(&request.path));
    let server = Server { endpoint, requests: Arc::default() };
    let refusal = import(&server, &Place::new(), "owner/model", &[]).code(1);
    assert!(refusal.stderr().contains("redirects more than 10 times"), "{}", refusal.stderr());
}

#[test]
fn a_list_of_files_is_not_trusted() {
    let refused = |siblings: Value| {
        let server = Server::that_lists(json!({ "sha": COMMIT, "siblings": siblings }));
        let place = Place::new();
        let refusal = import(&server, &place, "owner/model", &[]).code(1);
        assert!(!refusal.stderr().contains('\u{1b}'), "{:?}", refusal.stderr());
        refusal.stderr().to_owned()
    };
    let error = refused(json!([{ "rfilename": "model.safetensors", "size": 5, "blobId": "\u{1b}[2J" }]));
    assert!(error.contains("as the hash of model.safetensors"), "{error}");
    let error = refused(json!([{ "rfilename": "model.safetensors" }]));
    assert!(error.contains("does not give the length of model.safetensors"), "{error}");
    let error = refused(json!([
        { "rfilename": "config.json", "size": 1u64 << 40 }, { "rfilename": "model.safetensors", "size": 5 }
    ]));
    assert!(error.contains("config.json has 1099511627776 bytes"), "{error}");

    // An index may name only files beside it.
    for name in ["../../../evil", "/etc/passwd", "a/b", "..", "\u{1b}[2J", "a\nb", ".hidden"] {
        let index = json!({ "weight_map": { "wte.weight": name } }).to_string();
        let siblings = json!([
            { "rfilename": "model.safetensors.index.json", "size": index.len(), "blobId": git_hash(index.as_bytes()) },
            { "rfilename": name, "size": 5 }
        ]);
        let listing = json!({ "sha": COMMIT, "siblings": siblings }).to_string();
        let endpoint = serve(move |request| {
            if request.path.contains("/resolve/") { ok(index.as_bytes()) } else { ok(listing.as_bytes()) }
        });
        let (server, place) = (Server { endpoint, requests: Arc::default() }, Place::new());
        let refusal = import(&server, &place, "owner/model", &[]).code(1);
        let error = refusal.stderr();
        assert!(error.contains("which is not in the same folder") && !error.contains('\u{1b}'), "{error:?}");
    }
}

#[test]
fn an_answer_without_an_end_is_cut_off() {
    let listing = serve(|_| ok(&vec![b' '; (16 << 20) + 2]));
    let server = Server { endpoint: listing, requests: Arc::default() };
    let refusal = import(&server, &Place::new(), "owner/model", &[]).code(1);
    assert!(refusal.stderr().contains("the response is longer than 16777216 bytes"), "{}", refusal.stderr());

    let file = serve(|request| {
        if request.path.contains("/resolve/") {
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", [b'x'; 1 << 20].as_slice()].concat()
        } else {
            answer(&request.path, 0, None)
        }
    });
    let (server, place) = (Server { endpoint: file, requests: Arc::default() }, Place::new());
    let refusal = import(&server, &place, "owner/model", &[]).code(1);
    assert!(refusal.stderr().contains("the server sent more than the"), "{}", refusal.stderr());
    assert_eq!(cached(&place), Vec::<String>::new());
}

#[test]
fn names_that_lead_elsewhere_or_nowhere_are_refused() {
    let place = Place::new();
    let server = Server::start(&[]);
    let error =
        |name: &str, more: &[(&str, &str)]| import(&server, &place, name, more).code(1).stderr().to_owned();
    assert!(error("owner/nothing", &[]).contains("the hub has no model owner/nothing"));
    for name in
        ["../../etc", "a/b/c", "owner/..", "", "owner/model@../x", "owner/mo del", "a--b/c", "a\u{1b}[2J/b"]
    {
        let error = error(name, &[]);
        assert!(error.contains("is not a") && !error.contains('\u{1b}'), "{name:?}: {error:?}");
    }
    assert!(error("owner/model", &[("HF_HUB_OFFLINE", "1")]).contains("is not in the cache"));
    let nobody = [("HF_ENDPOINT", "http://127.0.0.1:1")];
    assert!(error("owner/model", &nobody).contains("127.0.0.1:1"));
}
