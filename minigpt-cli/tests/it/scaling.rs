//! `minigpt scaling`: sweeps that are killed and resumed, laws of tables, and numbers that are withheld.

use crate::support::{Place, answer, assert_contains, failure, minigpt, names, refused, shown};
use serde_json::Value;
use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// L(N, D) = 1.2 + 30/N^0.35 + 150/D^0.4 with a pattern in the last digits, in two sets of which one is nonsense.
fn table() -> String {
    let mut text = "set,N,D,valid_loss\n".to_owned();
    for i in 0..24 {
        let (n, d) = (1.5e4 * 2.2_f64.powi(i / 4), 1.2e5 * 2_f64.powi(i % 4));
        let noise = 1.0 + 0.0004 * f64::from(i * 7 % 5 - 2);
        let loss = noise * (1.2 + 30.0 * n.powf(-0.35) + 150.0 * d.powf(-0.4));
        text += &format!("real,{n},{d},{loss}\nodd,{n},{d},{}\n", i % 3 + 1);
    }
    text + "real,5,5,\n"
}

const COLUMNS: [&str; 4] = ["--columns", "parameters=N,tokens=D,loss=valid_loss", "--where", "set=real"];

#[test]
fn a_law_is_fitted_to_any_table() {
    let place = Place::new();
    let file = place.write("runs.csv", table());
    let out = place.text("pictures");
    let fit = answer(&[&["scaling", "fit", "--csv", &file, "--out", &out], &COLUMNS[..]].concat());
    let near = |name: &str, truth: f64, part: f64| {
        let found = fit[name].as_f64().unwrap();
        assert!((found / truth - 1.0).abs() < part, "{name} is {found}");
        let interval = fit["intervals"][name].as_array().unwrap();
        assert!(interval[0].as_f64().unwrap() <= found && found <= interval[1].as_f64().unwrap());
    };
    near("E", 1.2, 0.05);
    near("alpha", 0.35, 0.1);
    near("beta", 0.4, 0.1);
    near("A", 30.0, 0.5);
    near("B", 150.0, 0.6);
    assert_eq!((fit["points"].as_u64(), fit["without_loss"].as_u64()), (Some(24), Some(1)));
    assert!(fit["objective"].as_f64().unwrap() < 1e-5);
    assert!(fit["held_out"]["mean_error"].as_f64().unwrap() < 0.01);
    assert!(fit["held_out"]["largest_size"]["worst_error"].as_f64().unwrap() < 0.02);
    assert_eq!(
        names(&place.path("pictures")),
        ["fit.json", "isoflop.svg", "loss.svg", "report.txt", "residuals.svg"]
    );
    let page = shown(&[&["scaling", "fit", "--csv", &file], &COLUMNS[..]].concat());
    assert_contains(
        &page,
        &["loss that no model gets below", "Twice the text", "Twice the size", "What these runs can't tell"],
    );
}

#[test]
fn what_a_table_does_not_determine_is_no_number() {
    let place = Place::new();
    let mut text = "parameters,tokens,loss\n".to_owned();
    for i in 0..24 {
        let (n, d) = (1.5e4 * 2.2_f64.powi(i / 4), 1.2e5 * 2_f64.powi(i % 4));
        let noise = 1.0 + 0.01 * (f64::from(i * 37 % 11) / 5.0 - 1.0);
        text += &format!("{n},{d},{}\n", noise * 30.0 * d.powf(-0.2));
    }
    let file = place.write("runs.csv", text);
    let fit = answer(&["scaling", "fit", &file]);
    assert!(fit["E"].is_null() && fit["undetermined"]["E"] == "reaches_zero", "{fit}");
    assert!(fit["best_fit"]["E"].is_number() && fit["intervals"]["E"].is_array());
    assert_contains(
        &shown(&["scaling", "fit", &file]),
        &["E is not determined: its 95 % interval reaches 0"],
    );
}

#[test]
fn mistakes_are_told_in_words() {
    let place = Place::new();
    let file = place.write("runs.csv", table());
    assert_contains(&refused(&["scaling", "fit", &file]), &["there is no column parameters", "valid_loss"]);
    let other = ["scaling", "fit", &file, COLUMNS[0], COLUMNS[1], "--where", "set=none"];
    assert_contains(&refused(&other), &["no usable run in 49 rows"]);
    let few = place.write("few.csv", "parameters,tokens,loss\n1e6,1e7,3\n2e6,1e7,2.9\n");
    assert_contains(&refused(&["scaling", "fit", &few]), &["2 runs of 2 sizes", "at least 7 runs"]);
    assert_contains(&refused(&["scaling", "fit", &place.text("")]), &["not a sweep"]);
    failure(&["scaling", "fit"], 2);
    failure(&["scaling", "predict", &file], 2);
    failure(&["scaling", "fit", &file, "--delta", "-1"], 2);
    let text = place.write("novel.txt", novel());
    assert_contains(&refused(&["scaling", "plan", &text, "--epochs", "9"]), &["9 epochs", "repeated data"]);
    assert_contains(&refused(&["scaling", "plan", &text, "--widths", "16,8"]), &["in ascending order"]);
    let tiny = place.write("tiny.txt", "too little to learn from");
    assert_contains(&refused(&["scaling", "plan", &tiny]), &["are too few"]);
}

#[test]
fn predictions_have_intervals_and_say_when_they_are_too_far() {
    let place = Place::new();
    let file = place.write("runs.csv", table());
    let ask = |more: &[&str]| answer(&[&["scaling", "predict", &file], &COLUMNS[..], more].concat());
    let near = ask(&["--parameters", "1e6", "--tokens", "2e6"]);
    let truth = 1.2 + 30.0 * 1e6_f64.powf(-0.35) + 150.0 * 2e6_f64.powf(-0.4);
    let loss = &near["loss"];
    assert!((loss["value"].as_f64().unwrap() / truth - 1.0).abs() < 0.01, "{near}");
    assert!(loss["interval"][0].as_f64().unwrap() < truth && truth < loss["interval"][1].as_f64().unwrap());
    assert_eq!(near["extrapolation"], false);
    assert!(near["double_data"]["gain"]["value"].as_f64().unwrap() > 0.0);
    let far = ask(&["--parameters", "1e8", "--tokens", "1e9"]);
    assert_eq!(far["extrapolation"], true);
    let best = ask(&["--flops", "1e12"]);
    let product = best["best"]["parameters"]["value"].as_f64().unwrap()
        * best["best"]["tokens"]["value"].as_f64().unwrap();
    assert!((6.0 * product / 1e12 - 1.0).abs() < 1e-9, "{best}");
    let page = shown(&[&["scaling", "predict", &file, "--flops", "1e20"], &COLUMNS[..]].concat());
    assert_contains(&page, &["best size N", "extrapolated", "twice the data", "held out"]);
}

fn novel() -> String {
    let words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "rats", "eat", "that", "tea"];
    let mut state = 12345_u64;
    let mut text = String::new();
    for i in 0..12_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text += words[(state >> 33) as usize % words.len()];
        text += if i % 11 == 10 { ".\n" } else { " " };
    }
    text
}

/// A sweep of eighteen runs that takes seconds.
fn sweep(place: &Place, out: &str, more: &[&str]) -> Child {
    let out = place.text(out);
    let novel = place.text("novel.txt");
    let args = ["scaling", "run", "--out", &out, "--threads", "2", "--json"];
    let new = [
        &novel,
        "--widths",
        "8,16,24,32",
        "--tokens",
        "12000",
        "--set",
        "train.batch_size=2",
        "--set",
        "model.block_size=16",
    ];
    let new: &[&str] = if more.is_empty() { &new } else { more };
    minigpt(&[&args[..], new].concat()).spawn()
}

fn losses(place: &Place, out: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(place.path(out).join("runs.csv")).unwrap_or_default();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), cells[8].to_owned())
    };
    let mut rows: Vec<_> = text.lines().skip(1).map(row).collect();
    rows.sort();
    rows
}

/// Killed again and again, also between the end of a run and its row, a sweep has every run once, with the losses of one that
/// was left alone.
#[test]
fn killed_at_any_instant_a_sweep_resumes_to_the_same_losses() {
    let place = Place::new();
    place.write("novel.txt", novel());
    let whole = sweep(&place, "whole", &[]).wait_with_output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let fit: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(fit["points"].as_u64(), Some(18));
    assert_eq!(fit["delta_from"], "seed_noise", "two runs differ in nothing but the seed");
    assert!(fit["intervals"]["alpha"].is_array() && !fit["held_out"]["mean_error"].is_null());
    // The same plan once more: which sizes run side by side is measured, and may come out otherwise a second time.
    place.write("killed/sweep.json", fs::read(place.path("whole/sweep.json")).unwrap());
    let table = fs::read_to_string(place.path("whole/runs.csv")).unwrap();
    place.write("killed/runs.csv", format!("{}\n", table.lines().next().unwrap()));
    for attempt in 0..6 {
        let mut child = sweep(&place, "killed", &["--resume"]);
        // Until three more rows are there, and then for a moment.
        let (before, began) = (losses(&place, "killed").len(), Instant::now());
        while losses(&place, "killed").len() < before + 3 && began.elapsed() < Duration::from_secs(120) {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(17 * attempt));
        child.kill().unwrap();
        let _ = child.wait_with_output().unwrap();
    }
    let done = sweep(&place, "killed", &["--resume"]).wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(losses(&place, "killed"), losses(&place, "whole"));
    // What is left are ordinary run folders, and a folder that says what it is.
    let description: Value =
        serde_json::from_slice(&fs::read(place.path("whole/sweep.json")).unwrap()).unwrap();
    assert_eq!(description["format"], "minigpt-sweep");
    assert_eq!(description["runs"].as_array().unwrap().len(), 18);
    for run in description["runs"].as_array().unwrap() {
        let folder = place.path("whole/runs").join(run["name"].as_str().unwrap());
        assert!(folder.join("metrics.jsonl").is_file() && folder.join("best/model.safetensors").is_file());
    }
    let one = place.path("whole/runs").join(&losses(&place, "whole")[0].0);
    minigpt(&["plot", one.to_str().unwrap()]).run().success();
    let again = refused(&[
        "scaling",
        "run",
        &place.text("novel.txt"),
        "--widths",
        "8,16,24,32",
        "--tokens",
        "12000",
        "--set",
        "train.batch_size=2",
        "--set",
        "model.block_size=16",
        "--out",
        &place.text("whole"),
        "--quiet",
    ]);
    assert_contains(&again, &["this folder already holds a sweep"]);
}

#[test]
fn a_plan_fits_its_budget_and_counts_both_ways() {
    let place = Place::new();
    let text = place.write("novel.txt", novel());
    let small = ["--set", "train.batch_size=4", "--set", "model.block_size=16"];
    let plan = answer(&[&["scaling", "plan", &text, "--flops", "2e11"], &small[..]].concat());
    assert!(plan["flops"].as_f64().unwrap() <= 2e11, "{plan}");
    let sizes = plan["sizes"].as_array().unwrap();
    assert!((4..=6).contains(&sizes.len()) && plan["tokens"].as_array().unwrap().len() == 4);
    for size in sizes {
        assert!(size["parameters"].as_u64().unwrap() < size["parameters_total"].as_u64().unwrap());
    }
    assert!(plan["epochs"].as_f64().unwrap() <= 1.0);
    let more = ["scaling", "plan", &text, "--epochs", "3", "--widths", "8,16,24,32"];
    let warned = minigpt(&[&more, &small[..]].concat()).run().success();
    assert_contains(warned.stderr(), &["past one epoch"]);
    let few = [&["scaling", "plan", &text, "--flops", "1e3"], &small[..]].concat();
    assert_contains(&refused(&few), &["FLOPs are too few"]);
}

#[test]
fn the_published_law_is_withheld_where_it_does_not_apply() {
    let small = answer(&["plan", "shakespeare-char", "--flops-per-second", "1e12"]);
    assert!(small["expected_loss"].is_null());
    assert_contains(small["expected_loss_withheld"].as_str().unwrap(), &["32,000"]);
    let page = shown(&["plan", "shakespeare-char", "--flops-per-second", "1e12"]);
    assert_contains(&page, &["expected loss", "a loss per token means something else"]);
    let gpt2 = answer(&["plan", "gpt2", "--flops-per-second", "1e12"]);
    let terms = &gpt2["expected_loss_terms"];
    assert_eq!(terms["law"]["E"], 1.8172);
    let sum: f64 = ["floor", "size", "data"].iter().map(|term| terms["terms"][term].as_f64().unwrap()).sum();
    assert!((sum - gpt2["expected_loss"].as_f64().unwrap()).abs() < 1e-9, "{gpt2}");
    assert_contains(
        &shown(&["plan", "gpt2", "--flops-per-second", "1e12"]),
        &["Besiroglu et al. 2024", "1.82 + "],
    );
}

/// Runs of sizes and counts of tokens that span these factors.
fn runs(sizes: f64, counts: f64, loss: impl Fn(f64, f64) -> f64) -> String {
    let mut text = "parameters,tokens,loss\n".to_owned();
    for i in 0..16 {
        let (n, d) = (2e4 * sizes.powf(f64::from(i / 4) / 3.0), 2e5 * counts.powf(f64::from(i % 4) / 3.0));
        let noise = 1.0 + 0.001 * f64::from(i * 7 % 5 - 2);
        text += &format!("{n},{d},{}\n", noise * loss(n, d));
    }
    text
}

fn law(n: f64, d: f64) -> f64 {
    1.2 + 30.0 * n.powf(-0.35) + 150.0 * d.powf(-0.4)
}

#[test]
fn what_runs_that_are_too_much_alike_do_not_say_is_withheld_with_the_reason() {
    let place = Place::new();
    let narrow = place.write("narrow.csv", runs(1.02, 8.0, law));
    let ask = |more: &[&str]| answer(&[&["scaling", "predict", &narrow], more].concat());
    let inside = ask(&["--parameters", "20200", "--tokens", "1e6"]);
    assert!(inside["loss"]["value"].is_number() && inside["prediction_withheld"].is_null(), "{inside}");
    assert!(inside["double_data"].is_object() && inside["double_size"].is_null(), "{inside}");
    let larger = ask(&["--parameters", "1e6", "--tokens", "1e6", "--flops", "1e12"]);
    assert!(larger["loss"].is_null() && larger["best"].is_null(), "{larger}");
    assert_eq!(larger["prediction_withheld"], "sizes_too_narrow");
    assert_eq!(larger["best_withheld"], "sizes_too_narrow");
    let page =
        shown(&["scaling", "predict", &narrow, "--parameters", "1e6", "--tokens", "1e6", "--flops", "1e12"]);
    assert_contains(&page, &["loss", "the runs' sizes span less than a factor of 2"]);
    let fit = answer(&["scaling", "fit", &narrow]);
    assert!(fit["E"].is_null() && fit["A"].is_null() && fit["alpha"].is_null(), "{fit}");
    assert_eq!(
        (&fit["undetermined"]["alpha"], fit["double_size"].is_null()),
        (&"sizes_too_narrow".into(), true)
    );
    assert_contains(
        &shown(&["scaling", "fit", &narrow]),
        &["α is not determined: the runs' sizes span", "Twice the size"],
    );
    let short = place.write("short.csv", runs(8.0, 1.5, law));
    let longer = answer(&["scaling", "predict", &short, "--parameters", "1e5", "--tokens", "1e8"]);
    assert_eq!(longer["prediction_withheld"], "tokens_too_narrow");
}

/// It was "−NaN 95 %: NaN to NaN" where a term of the law is nothing.
#[test]
fn a_prediction_is_never_nan() {
    let place = Place::new();
    let by_data = runs(16.0, 16.0, |_, d| 30.0 * d.powf(-0.2));
    let by_size = runs(16.0, 16.0, |n, _| 30.0 * n.powf(-0.2));
    let flat = runs(16.0, 16.0, |_, _| 2.0);
    for (name, table) in [("data.csv", by_data), ("size.csv", by_size), ("flat.csv", flat)] {
        let file = place.write(name, table);
        for more in [
            &["--flops", "1e15"][..],
            &["--parameters", "1e6", "--tokens", "1e7"],
            &["--parameters", "1e6", "--flops", "1e15"],
        ] {
            let page = shown(&[&["scaling", "predict", &file], more].concat());
            assert!(!page.contains("NaN") && !page.contains("inf"), "{name} {more:?}: {page}");
            answer(&[&["scaling", "predict", &file], more].concat());
        }
    }
    let file = place.write("data2.csv", runs(16.0, 16.0, |_, d| 30.0 * d.powf(-0.2)));
    let best = answer(&["scaling", "predict", &file, "--flops", "1e15"]);
    assert!(best["best"].is_null() && best["best_withheld"].is_string(), "{best}");
}

#[test]
fn a_size_and_a_budget_together_are_both_used() {
    let place = Place::new();
    let file = place.write("runs.csv", runs(16.0, 16.0, law));
    let both = answer(&["scaling", "predict", &file, "--parameters", "1e5", "--flops", "6e11"]);
    assert_eq!((both["parameters"].as_f64(), both["tokens"].as_f64()), (Some(1e5), Some(1e6)));
    assert!(both["best"].is_object(), "{both}");
    let error = failure(&["scaling", "predict", &file, "--flops", "1e12", "--repeated"], 2);
    assert_contains(&error, &["--repeated has no effect here: it takes effect with --parameters"]);
    // Regression: it said that minutes were infinite, and that there had to be more.
    for args in [
        &["scaling", "plan", "builtin", "--minutes", "1e308"][..],
        &["scaling", "run", "builtin", "--minutes", "1e308", "--out", "x"],
    ] {
        let error = failure(args, 1);
        assert_contains(&error, &["minutes: 1e308; it must be above 0 and at most 100,000,000"]);
    }
    let error = failure(&["scaling", "run", "--resume", "--out", "x", "--minutes", "3"], 2);
    assert_contains(&error, &["--minutes has no effect here: it takes effect without --resume"]);
    let error = refused(&["scaling", "run", "text.txt", "--resume", "--out", "x"]);
    assert_contains(&error, &["leave out text.txt"]);
}
