//! Downloads against a local server that also misbehaves.

use minigpt_data::{
    Checked, DownloadEvent, DownloadOptions, Downloaded, Error, Licence, PublicSet, SetContents, download,
};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// What the server does with one request.
#[derive(Clone, Copy)]
enum Act {
    /// Sends what was asked for.
    Serve,
    /// Sends this many bytes of it and hangs up.
    Cut(usize),
    /// Sends the whole file whatever was asked for.
    IgnoreRange,
    /// Sends the whole file without saying how long it is.
    NoLength,
    /// Says it is this long, whatever it is.
    ClaimLength(usize),
    /// Answers with a status and nothing else.
    Status(&'static str),
    /// Hangs up without a word.
    HangUp,
    /// Continues with a part of another version.
    OtherVersion,
}

/// A server that acts as told, one act a request, and notes the ranges it was asked for.
struct Server {
    endpoint: String,
    ranges: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(file: Vec<u8>, acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let ranges = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ranges);
        thread::spawn(move || {
            for act in acts {
                let (mut stream, _) = listener.accept().unwrap();
                let mut range = String::new();
                for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                    let line = line.unwrap_or_default().to_ascii_lowercase();
                    if let Some(asked) = line.strip_prefix("range: ") {
                        asked.clone_into(&mut range);
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                seen.lock().unwrap().push(range.clone());
                let _ = stream.write_all(&answer(&file, act, &range));
            }
        });
        Server { endpoint, ranges }
    }

    fn ranges(&self) -> Vec<String> {
        self.ranges.lock().unwrap().clone()
    }
}

fn answer(file: &[u8], act: Act, range: &str) -> Vec<u8> {
    let asked =
        range.strip_prefix("bytes=").and_then(|r| r.strip_suffix('-')).map(|r| r.parse::<usize>().unwrap());
    let start = if matches!(act, Act::IgnoreRange | Act::NoLength) { 0 } else { asked.unwrap_or(0) };
    if start > file.len() || asked.is_some_and(|start| start == file.len()) {
        return format!(
            "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{}\r\nContent-Length: 0\r\n\r\n",
            file.len()
        )
        .into_bytes();
    }
    let body = &file[start..];
    let status = if start > 0 { "206 Partial Content" } else { "200 OK" };
    let claimed = if let Act::ClaimLength(length) = act { length } else { body.len() };
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    if start > 0 {
        head += &format!("Content-Range: bytes {start}-{}/{}\r\n", file.len() - 1, file.len());
    }
    head += if matches!(act, Act::OtherVersion) { "ETag: \"two\"\r\n" } else { "ETag: \"one\"\r\n" };
    if !matches!(act, Act::NoLength) {
        head += &format!("Content-Length: {claimed}\r\n");
    }
    let sent = match act {
        Act::Cut(n) => &body[..n.min(body.len())],
        Act::Status(status) => return format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes(),
        Act::HangUp => return Vec::new(),
        _ => body,
    };
    [head.as_bytes(), b"\r\n", sent].concat()
}

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|i| format!("line {i} 行\n").into_bytes()).collect()
}

/// A set whose file is `text()`, pinned or not.
fn set(pinned: bool) -> PublicSet {
    let hash: String = Sha256::digest(text()).iter().map(|byte| format!("{byte:02x}")).collect();
    PublicSet {
        name: "test",
        about: SetContents::Names,
        language: "en",
        bytes: text().len() as u64,
        sha256: pinned.then(|| &*hash.leak()),
        licence: Licence::Mit,
        url: "https://example.invalid/data/test.txt",
        file: "test.txt",
    }
}

fn fetch(server: &Server, set: &PublicSet, folder: &Path) -> (Result<Downloaded, Error>, Vec<DownloadEvent>) {
    let options = DownloadOptions { endpoint: Some(server.endpoint.clone()), ..DownloadOptions::default() };
    let mut events = Vec::new();
    let done = download(set, folder, &options, &mut |event| events.push(event));
    (done, events)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_fetched_checked_and_recorded() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start(text(), vec![Act::Serve]));
    let (done, events) = fetch(&server, &set(true), dir.path());
    let done = done.unwrap();
    assert_eq!(fs::read(&done.path).unwrap(), text());
    assert_eq!((done.checked, done.fetched, done.bytes), (Checked::Listed, true, text().len() as u64));
    assert!(
        matches!(&events[0], DownloadEvent::Started { total: Some(n), have: 0, .. } if *n == text().len() as u64)
    );
    assert_eq!(events.last(), Some(&DownloadEvent::Progress { have: text().len() as u64 }));
    assert_eq!(names(dir.path()), ["test.txt", "test.txt.sha256"]);
    let record = fs::read_to_string(dir.path().join("test.txt.sha256")).unwrap();
    assert_eq!(record, format!("{}  test.txt\n", done.sha256));
    // A second time nothing is fetched: the server is gone, and that does not matter.
    let again = fetch(&server, &set(true), dir.path()).0.unwrap();
    assert!(!again.fetched);
}

#[test]
fn a_cut_connection_is_continued_where_it_broke() {
    let dir = tempfile::tempdir().unwrap();
    let acts = vec![Act::Cut(1000), Act::HangUp, Act::Status("503 Busy"), Act::Cut(500), Act::Serve];
    let server = Server::start(text(), acts);
    let (done, events) = fetch(&server, &set(true), dir.path());
    assert_eq!(fs::read(done.unwrap().path).unwrap(), text());
    assert_eq!(server.ranges(), ["", "bytes=1000-", "bytes=1000-", "bytes=1000-", "bytes=1500-"]);
    let retries = events.iter().filter(|event| matches!(event, DownloadEvent::Retrying { .. }));
    assert_eq!(retries.count(), 4);
}

#[test]
fn a_later_run_continues_what_an_earlier_one_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut acts = vec![Act::Cut(1000)];
    acts.extend([Act::HangUp; 4]);
    let server = Server::start(text(), acts);
    assert!(matches!(fetch(&server, &set(false), dir.path()).0, Err(Error::Download { .. })));
    assert_eq!(
        names(dir.path()),
        ["test.txt.part", "test.txt.part.json"],
        "no half file under the real name"
    );

    // Another address: the part is not trusted, and all of it is fetched.
    let other = Server::start(text(), vec![Act::Serve]);
    assert_eq!(fetch(&other, &set(false), dir.path()).0.unwrap().checked, Checked::First);
    assert_eq!(other.ranges(), [""]);
}

#[test]
fn an_earlier_part_of_the_same_address_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let mut acts = vec![Act::Cut(1000)];
    acts.extend([Act::HangUp; 4]);
    acts.push(Act::Serve);
    let server = Server::start(text(), acts);
    assert!(fetch(&server, &set(false), dir.path()).0.is_err());
    let (done, events) = fetch(&server, &set(false), dir.path());
    assert_eq!(fs::read(done.unwrap().path).unwrap(), text());
    assert!(matches!(events[0], DownloadEvent::Started { have: 1000, .. }));
}

#[test]
fn a_server_that_ignores_ranges_sends_it_all_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Cut(1000), Act::IgnoreRange]);
    assert_eq!(fs::read(fetch(&server, &set(false), dir.path()).0.unwrap().path).unwrap(), text());
}

#[test]
fn a_part_of_another_version_is_thrown_away() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Cut(1000), Act::OtherVersion, Act::OtherVersion]);
    assert_eq!(fs::read(fetch(&server, &set(false), dir.path()).0.unwrap().path).unwrap(), text());
    assert_eq!(server.ranges(), ["", "bytes=1000-", ""]);
}

#[test]
fn a_part_that_is_whole_already_is_only_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Serve]);
    fs::write(dir.path().join("test.txt.part"), text()).unwrap();
    let note = format!("{{\"url\":\"{}/data/test.txt\",\"version\":\"\\\"one\\\"\"}}", server.endpoint);
    fs::write(dir.path().join("test.txt.part.json"), note).unwrap();
    let (done, events) = fetch(&server, &set(false), dir.path());
    assert_eq!(fs::read(done.unwrap().path).unwrap(), text());
    assert!(events.is_empty());
}

#[test]
fn without_a_length_the_hash_decides() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::NoLength]);
    assert_eq!(fs::read(fetch(&server, &set(true), dir.path()).0.unwrap().path).unwrap(), text());
}

#[test]
fn a_wrong_length_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::ClaimLength(99)]);
    let error = fetch(&server, &set(true), dir.path()).0.unwrap_err().to_string();
    assert!(error.contains("has 99 bytes, not"), "{error}");
    assert!(!dir.path().join("test.txt").exists());
}

#[test]
fn a_server_that_promised_too_much_is_asked_again_and_believed() {
    let dir = tempfile::tempdir().unwrap();
    // The second answer is 416 with the true length: the part was whole.
    let server = Server::start(text(), vec![Act::ClaimLength(text().len() + 7), Act::Serve]);
    assert_eq!(fs::read(fetch(&server, &set(false), dir.path()).0.unwrap().path).unwrap(), text());
    assert_eq!(server.ranges(), [String::new(), format!("bytes={}-", text().len())]);
}

#[test]
fn a_wrong_file_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = text();
    other[77] ^= 1;
    let server = Server::start(other, vec![Act::Serve]);
    assert!(matches!(fetch(&server, &set(true), dir.path()).0, Err(Error::WrongHash { .. })));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn an_endless_answer_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text().repeat(50), vec![Act::NoLength]);
    let error = fetch(&server, &set(true), dir.path()).0.unwrap_err().to_string();
    assert!(error.contains("the server sent more than"), "{error}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_set_without_a_hash_may_grow_but_not_without_end() {
    let dir = tempfile::tempdir().unwrap();
    for (act, problem) in
        [(Act::NoLength, "the server sent more than"), (Act::Serve, "more than the limit of")]
    {
        let server = Server::start(text().repeat(9), vec![act]);
        let error = fetch(&server, &set(false), dir.path()).0.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn a_continued_file_is_hashed_as_a_whole() {
    // The part is of another file with the same version tag: only the hash can tell.
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Serve]);
    fs::write(dir.path().join("test.txt.part"), vec![b'x'; 1000]).unwrap();
    let note = format!("{{\"url\":\"{}/data/test.txt\",\"version\":\"\\\"one\\\"\"}}", server.endpoint);
    fs::write(dir.path().join("test.txt.part.json"), note).unwrap();
    assert!(matches!(fetch(&server, &set(true), dir.path()).0, Err(Error::WrongHash { .. })));
    assert_eq!(server.ranges(), ["bytes=1000-"]);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_missing_file_is_not_asked_for_twice() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Status("404 Not Found"); 3]);
    let error = fetch(&server, &set(true), dir.path()).0.unwrap_err().to_string();
    assert!(error.contains("the server answered 404 Not Found"), "{error}");
    assert_eq!(server.ranges().len(), 1);
}

#[test]
fn a_revised_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(text(), vec![Act::Serve]);
    let first = fetch(&server, &set(false), dir.path()).0.unwrap();
    let server = Server::start(text().repeat(2), vec![Act::Serve]);
    let options =
        DownloadOptions { endpoint: Some(server.endpoint), force: true, ..DownloadOptions::default() };
    let second = download(&set(false), dir.path(), &options, &mut |_| {}).unwrap();
    assert_eq!(second.checked, Checked::Changed(first.sha256));
}

#[test]
fn a_file_in_the_way_that_is_not_ours_stays() {
    let (dir, server) = (tempfile::tempdir().unwrap(), Server::start(text(), vec![]));
    fs::write(dir.path().join("test.txt"), "my own").unwrap();
    for pinned in [true, false] {
        assert!(matches!(
            fetch(&server, &set(pinned), dir.path()).0,
            Err(Error::File(minigpt_files::Error::Exists { .. }))
        ));
    }
    assert_eq!(fs::read(dir.path().join("test.txt")).unwrap(), b"my own");
}

#[test]
fn offline_it_fails_at_once_with_help() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for endpoint in [endpoint, "http://does-not-exist.invalid".to_owned()] {
        let started = std::time::Instant::now();
        let options = DownloadOptions { endpoint: Some(endpoint), ..DownloadOptions::default() };
        let error = download(&set(true), dir.path(), &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Offline { .. }), "{error}");
        assert!(started.elapsed().as_secs() < 15);
        assert!(names(dir.path()).is_empty());
    }
}
