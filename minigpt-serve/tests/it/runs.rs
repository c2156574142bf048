//! Runs over HTTP, for clients that read what they asked for and for those that don't.

use crate::support::*;
use minigpt_serve::{PageConfig, ServedModel, Server};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;

/// A server with a folder of runs, of which `r0` has records and a large picture.
fn site() -> (tempfile::TempDir, Site) {
    let runs = tempfile::tempdir().unwrap();
    let run = runs.path().join("r0");
    fs::create_dir(&run).unwrap();
    let padding = "x".repeat(900);
    let line = |step| format!("{{\"step\":{step},\"loss\":1.5,\"note\":\"{padding}\"}}\n");
    let lines: String = (0..4000).map(line).collect();
    // Together, more than the system takes for a client.
    fs::write(run.join("metrics.jsonl"), &lines).unwrap();
    fs::write(run.join("samples.jsonl"), &lines).unwrap();
    fs::write(run.join("big.svg"), vec![b' '; 8 << 20]).unwrap();
    fs::write(run.join("loss.svg"), "<svg/>").unwrap();
    let page = PageConfig {
        runs: Some(runs.path().to_owned()),
        open: Arc::new(|_| Err("nothing is opened here".to_owned())),
        files: false,
    };
    let running = Server::bind(config()).unwrap().with_page(page).start().unwrap();
    running.serve(vec![ServedModel::start(plain(), &engine()).unwrap()]).unwrap();
    (runs, Site { address: running.address(), running: Some(running) })
}

/// The status of an answer, of which nothing else is read.
fn status(stream: &mut TcpStream) -> String {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..]).into_owned()
}

/// Regression: a hundred clients that asked for a picture of 8 MB and did not read it took 1.1 GB.
#[test]
fn answers_about_runs_that_nobody_reads_are_bounded() {
    let (_runs, site) = site();
    for (path, most) in [("/v1/runs/r0/pictures/big.svg", 20), ("/v1/runs/r0", 60)] {
        let mut unread = Vec::new();
        let refused = (0..most).find_map(|_| {
            let mut stream = site.open("GET", path, &[], b"");
            let status = status(&mut stream);
            unread.push(stream);
            (status != "200").then_some(status)
        });
        assert_eq!(refused.as_deref(), Some("429"), "{path}");
        assert!(unread.len() > 10, "{path}: {}", unread.len());
        assert_eq!(site.get("/v1/runs/r0/pictures/loss.svg").text(), "<svg/>");
        let refused = site.get(path);
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.problem()["code"], "answers_too_large");
        drop(unread);
        until("there is room again", || site.get(path).status == 200);
    }
}

#[test]
fn no_more_than_64_clients_watch_at_the_same_time() {
    let (_runs, site) = site();
    let watch = || site.open("GET", "/v1/runs/events", &[], b"");
    let mut watchers: Vec<TcpStream> = (0..64).map(|_| watch()).collect();
    for watcher in &mut watchers {
        assert_eq!(status(watcher), "200");
    }
    assert_eq!(status(&mut watch()), "429");
    let refused = site.get("/v1/runs/events");
    assert_eq!((refused.status, &refused.problem()["code"]), (429, &"too_many_watchers".into()));
    drop(watchers.pop());
    until("another one may watch", || status(&mut watch()) == "200");
}
