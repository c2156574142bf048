//! `minigpt plot` as a person types it.

use crate::support::{Place, Program, assert_contains, minigpt, text};
use minigpt_train::record::{Metrics, StepRecord};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A place with the run folders `short`, `long` and `empty`.
fn runs() -> Place {
    let place = Place::new();
    for (name, steps) in [("short", 5), ("long", 40), ("empty", 0)] {
        let folder = place.path(name);
        fs::create_dir(&folder).unwrap();
        write(&folder, steps);
    }
    place
}

fn write(folder: &Path, steps: u64) {
    let mut metrics = Metrics::create(&folder.join("metrics.jsonl")).unwrap();
    for step in 1..=steps {
        let record = StepRecord {
            step: 10 * step,
            loss: 4.0 / (step as f64).sqrt(),
            tokens: 7680 * step,
            seconds: step as f64,
            val_loss: step.is_multiple_of(4).then_some(4.5 / (step as f64).sqrt()),
            ..StepRecord::default()
        };
        metrics.append(&record).unwrap();
    }
}

fn plot(place: &Place, args: &[&str]) -> Program {
    minigpt(&[&["plot"], args].concat()).within(&place.path(""))
}

fn shown(place: &Place, args: &[&str]) -> String {
    plot(place, args).run().success().stdout().to_owned()
}

#[test]
fn one_run_is_drawn_in_its_folder_and_told_in_a_table() {
    let place = runs();
    let text = shown(&place, &["long"]);
    assert_contains(&text, &["⠒⠒ training", "o validation", "best validation", "at step", "307,200", "40 s"]);
    assert_contains(&text, &["0.6325", "0.7115", "400", "drawn in long/loss.svg\n"]);
    assert!(!text.contains('\x1b'), "no colours without a terminal");
    let svg = place.read_text("long/loss.svg");
    assert_contains(&svg, &["<svg", "Loss of long", ">step<", "</svg>"]);
}

/// Regression: `plot runs runs/one` drew `one` twice.
#[test]
fn a_run_that_is_named_twice_is_drawn_once() {
    let place = Place::new();
    for name in ["runs/one", "runs/two"] {
        fs::create_dir_all(place.path(name)).unwrap();
        write(&place.path(name), 5);
    }
    let again = ["runs", "runs/one", "./runs/../runs/two", "runs/two/metrics.jsonl", "--json"];
    let answer = plot(&place, &again).run().success().json();
    let names: Vec<&str> =
        answer["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    let twice = shown(&place, &["runs/one", "runs/one"]);
    assert_contains(&twice, &["drawn in runs/one/loss.svg"]);
}

#[test]
fn several_runs_are_drawn_in_one_picture_here() {
    let place = runs();
    let text = shown(&place, &["short", "long", "empty", "--x", "time"]);
    assert_contains(&text, &["a short", "b long", "seconds of training", "–", "drawn in plot.svg\n"]);
    let svg = place.read_text("plot.svg");
    assert_contains(&svg, &["Loss of 3 runs", "short", "long", "seconds of training"]);
}

#[test]
fn a_program_gets_one_json_value() {
    let place = runs();
    let text = shown(&place, &["short", "empty/metrics.jsonl", "--out", "both.svg", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["out"], "both.svg");
    let (short, empty) = (&answer["runs"][0], &answer["runs"][1]);
    assert_eq!(
        (&short["name"], &short["steps"], &short["records"]),
        (&"short".into(), &50.into(), &5.into())
    );
    assert_eq!((&short["best_val_loss"], &short["best_val_step"]), (&2.25.into(), &40.into()));
    assert_eq!((&short["tokens"], &short["seconds"]), (&38_400.into(), &5.0.into()));
    assert_eq!(
        (&empty["name"], &empty["steps"], &empty["last_loss"]),
        (&"empty".into(), &0.into(), &Value::Null)
    );
    assert!(place.path("both.svg").exists());
}

#[test]
fn runs_of_one_name_are_told_apart_by_their_paths() {
    let place = runs();
    fs::create_dir_all(place.path("other/long")).unwrap();
    write(&place.path("other/long"), 3);
    let text = shown(&place, &["long", "other/long", "short"]);
    assert_contains(&text, &["a long", "b other/long", "c short"]);
}

#[test]
fn a_run_that_was_killed_in_the_middle_of_a_line_is_drawn() {
    let place = runs();
    let path = place.path("short/metrics.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 9]).unwrap();
    assert_contains(&shown(&place, &["short"]), &["short     40"]);
}

#[test]
fn a_log_with_damaged_lines_is_drawn_without_them_and_they_are_named() {
    let place = runs();
    let path = place.path("short/metrics.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "# note\n").unwrap();
    let done = plot(&place, &["short"]).run().success();
    assert_contains(
        done.stderr(),
        &["short/metrics.jsonl: line ", "is not a record (expected value); skipped"],
    );
    assert!(!done.stdout().is_empty());
}

#[test]
fn what_is_not_a_run_is_refused_in_words() {
    let place = runs();
    fs::create_dir(place.path("photos")).unwrap();
    fs::write(place.path("short/metrics.jsonl"), "{\"step\":1}\n{}\n").unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["photos"],
            1,
            "photos is neither a training run nor a folder of runs: there is no metrics.jsonl in it",
        ),
        (&["long", "nowhere"], 1, "nowhere: no such folder"),
        (&["short"], 1, "short/metrics.jsonl, line 1: missing field `loss`"),
        (
            &["long", "--out", "no/such/a.svg"],
            1,
            "the picture could not be drawn: could not write no/such/a.svg",
        ),
        (&["long", "--out", "a.png"], 2, "must end in .svg"),
        (&[], 2, "<RUN>"),
    ];
    for (args, code, message) in cases {
        let done = plot(&place, args).run().code(code);
        assert_eq!(done.stdout(), "", "{args:?}");
        assert_contains(done.stderr(), &[message]);
    }
}

#[test]
fn a_folder_of_runs_is_plotted_as_all_of_them() {
    let place = runs();
    let done = minigpt(&["plot", text(&place.path("")), "--json", "--out", text(&place.path("all.svg"))])
        .run()
        .success();
    let answer = done.json();
    let names: Vec<&Value> = answer["runs"].as_array().unwrap().iter().map(|run| &run["name"]).collect();
    assert_eq!(names, ["empty", "long", "short"]);
    assert_contains(done.stderr(), &["is a folder of 3 runs"]);
}
