//! Looking inside with `minigpt inspect`, as a person types it.

use crate::support::{Place, SPECIAL, answer, assert_contains, characters, failure, fixture, shown, small};
use minigpt_model::Config;
use serde_json::Value;
use std::fs;

/// A small model with a character tokenizer of its own.
fn model(place: &Place) -> String {
    let tokenizer = characters(&SPECIAL, "你好吗我很abc.\n");
    place.model("model", Config { block_size: 16, n_embd: 8, ..small(16) }, Some(&tokenizer))
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn the_lens_ends_in_the_models_own_answer() {
    let model = fixture("gpt2");
    let seen = answer(&["inspect", &model, "--ids", "1,2,3", "--lens", "--full"]);
    let (layers, logits) = (rows(&seen["lens_logits"]), rows(&seen["logits"]));
    assert_eq!((layers.len(), rows(&seen["lens"]).len()), (3, 3));
    for (got, want) in rows(&layers[2][1]).iter().zip(rows(&logits[1])) {
        assert!((number(got) - number(want)).abs() < 1e-4);
    }
    assert_eq!(seen["lens"][2][2][0]["id"], seen["top"][0]["id"]);
    assert_contains(&shown(&["inspect", &model, "--ids", "1,2,3", "--lens"]), &["Logit lens", "embedding"]);
}

#[test]
fn attribution_sums_to_the_logit_and_says_where_it_is_not_defined() {
    let model = fixture("gpt2");
    let seen = answer(&["inspect", &model, "--ids", "1,2,3", "--attribution", "--token", "7", "--full"]);
    let sum: f64 = rows(&seen["attribution"]).iter().map(|share| number(&share["logit"])).sum();
    assert!((sum - number(&seen["logits"][2][7])).abs() < 1e-4);
    assert!((sum - number(&seen["total"])).abs() < 1e-9);
    let parts: Vec<&str> =
        rows(&seen["attribution"]).iter().map(|x| x["component"].as_str().unwrap()).collect();
    assert_eq!(&parts[..6], ["embed", "pos_embed", "0.0", "0.1", "0.2", "attn.0.bias"]);
    assert_contains(
        &shown(&["inspect", &model, "--ids", "1,2,3", "--attribution"]),
        &["layer 1 head 2", "│", "total"],
    );
    let error = failure(&["inspect", &fixture("gpt2-post"), "--ids", "1,2", "--attribution"], 1);
    assert_contains(&error, &["not defined for a post-norm model"]);
}

#[test]
fn parts_are_switched_off_and_what_changes_is_shown() {
    let place = Place::new();
    let model = model(&place);
    let seen = answer(&["inspect", &model, "--prompt", "你好吗我", "--ablate", "0.1,mlp.1", "--mean"]);
    assert_eq!((&seen["off"][0], &seen["off"][1]), (&"0.1".into(), &"mlp.1".into()));
    assert_eq!(seen["replaced_by"], "mean");
    assert!((number(&seen["before"]["loss"]) - number(&seen["loss"])).abs() < 1e-6);
    assert_ne!(seen["after"]["loss"], seen["before"]["loss"]);
    assert!(seen["after"]["continuation_text"].is_string() && !rows(&seen["after"]["top"]).is_empty());
    let said =
        shown(&["inspect", &model, "--prompt", "你好吗我", "--ablate", "attn.0", "--ablate", "layer.1"]);
    assert_contains(
        &said,
        &["Without attn.0, layer.1 (replaced by zero)", "with everything", "continues without"],
    );
    let error = failure(&["inspect", &model, "--prompt", "你", "--ablate", "head.1"], 2);
    assert_contains(&error, &["there is no part \"head.1\""]);
    let error = failure(&["inspect", &model, "--prompt", "你", "--ablate", "9.1"], 1);
    assert_contains(&error, &["there is no layer 9: there are 0 to 1"]);
}

#[test]
fn patching_needs_texts_of_one_length() {
    let place = Place::new();
    let model = model(&place);
    let texts = [
        "inspect",
        &model,
        "--prompt",
        "你好吗我",
        "--patch",
        "你很吗我",
        "--token",
        "5",
        "--other-token",
        "6",
    ];
    let patching = answer(&texts)["patching"].clone();
    assert_eq!((rows(&patching["layers_positions"]).len(), rows(&patching["layers_heads"]).len()), (2, 2));
    assert_eq!(rows(&patching["layers_positions"][0]).len(), 4);
    assert!((number(&patching["layers_positions"][0][1]) - 1.0).abs() < 1e-3, "{patching}");
    assert_contains(&shown(&texts), &["Patching", "head 1"]);
    let error = failure(&["inspect", &model, "--prompt", "你好", "--patch", "你"], 1);
    assert_contains(&error, &["these have 2 and 1"]);
}

#[test]
fn a_walk_shows_every_step_in_both_languages() {
    let place = Place::new();
    let model = model(&place);
    let seen = answer(&[
        "inspect",
        &model,
        "--prompt",
        "你好吗",
        "--walk",
        "--layer",
        "1",
        "--head",
        "1",
        "--position",
        "1",
    ]);
    let sites: Vec<&str> = rows(&seen["walk"]).iter().map(|step| step["site"].as_str().unwrap()).collect();
    for site in [
        "embed.token",
        "block.0.resid_post",
        "block.1.attn.q",
        "block.1.attn.scores",
        "ln_f",
        "logits",
        "choice",
    ] {
        assert!(sites.contains(&site), "{site} in {sites:?}");
    }
    let masked = rows(&seen["walk"]).iter().find(|step| step["site"] == "block.1.attn.scores").unwrap();
    assert_eq!((&masked["values"][2], &masked["head"]), (&Value::Null, &1.into()), "what is hidden is −∞");
    let english = shown(&["inspect", &model, "--prompt", "你好吗", "--walk"]);
    assert_contains(
        &english,
        &["1. embed.token  (3 × 8)", "The query says", "mean", "−∞", "tokens are left"],
    );
    let chinese = shown(&["inspect", &model, "--prompt", "你好吗", "--walk", "--lang", "zh"]);
    assert_contains(&chinese, &["查询向量", "标准差"]);
}

#[test]
fn the_books_examples_need_no_model() {
    let said = shown(&["inspect", "--example", "attention"]);
    assert_contains(&said, &["0.5050", "0.4950", "0.3772", "0.9318"]);
    assert_contains(&shown(&["inspect", "--example", "layernorm"]), &["mean 70.6833, deviation 76.9729"]);
    for name in ["restaurant", "gelu", "softmax"] {
        assert!(rows(&answer(&["inspect", "--example", name])["walk"]).len() >= 3);
    }
}

#[test]
fn heads_have_scores_beside_a_baseline() {
    let seen = answer(&["inspect", &fixture("gpt2"), "--heads"]);
    assert_eq!(rows(&seen["heads"]).len(), 6);
    for head in rows(&seen["heads"]) {
        for score in ["previous", "duplicate", "induction"] {
            assert!((0.0..=1.0).contains(&number(&head[score])));
            assert!((0.0..=1.0).contains(&number(&head["baseline"][score])));
        }
        assert!(head["role"].is_null() || head["role"].is_string());
    }
    assert!(number(&seen["copying"]["second_half_loss"]) > 0.0);
    assert_contains(&shown(&["inspect", &fixture("rope"), "--heads"]), &["in brackets", "role"]);
}

#[test]
fn ends_and_relations_stand_beside_their_baselines() {
    let place = Place::new();
    let model = model(&place);
    let said = shown(&["inspect", &model, "--prompt", "ab.\nba.\n\nc", "--boundaries"]);
    assert_contains(&said, &["frequency", "shuffled", "paragraph", "loss without"]);
    let tree = "1\tab\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tc\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No\n\n";
    fs::write(place.path("tree.conllu"), tree.replace("_\t_\n2", "_\tSpaceAfter=No\n2")).unwrap();
    let file = place.path("tree.conllu").display().to_string();
    let seen = answer(&["inspect", &model, "--relations", &file]);
    assert_eq!(seen["syntax"]["relations"][0]["relation"], "det");
    assert_contains(
        &shown(&["inspect", &model, "--relations", &file]),
        &["best offset", "doesn't show syntax"],
    );
    fs::write(place.path("tree.conllu"), "no treebank\n").unwrap();
    let error = failure(&["inspect", &model, "--relations", &file], 1);
    assert_contains(&error, &["tree.conllu", "line 1", "ten"]);
}

#[test]
fn a_page_stands_alone_and_text_stays_text() {
    let place = Place::new();
    let tokenizer = characters(&SPECIAL, "</script>&b");
    let model = place.model("model", Config { block_size: 16, n_embd: 8, ..small(16) }, Some(&tokenizer));
    let file = place.path("inside.html").display().to_string();
    shown(&["inspect", &model, "--prompt", "</script><b>", "--html", &file]);
    let page = fs::read_to_string(&file).unwrap();
    assert_eq!(page.matches("</script>").count(), 2, "only the page's own");
    for part in ["\"lens\"", "\"walk\"", "\"attention\"", "\"heads\"", "prefers-color-scheme"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_run_keeps_snapshots_that_can_be_looked_at() {
    let place = Place::new();
    let text = place.path("text.txt");
    fs::write(&text, "abcabcbacbacabcb".repeat(40)).unwrap();
    let (run, text) = (place.path("run").display().to_string(), text.display().to_string());
    let path = format!("data.path={text}");
    let steps = |count: &'static str| ["--set", count];
    let small = ["--n_layer=1", "--n_head=2", "--n_embd=8", "--block_size=8", "--batch_size=4", "--quiet"];
    let mut args = vec!["train", "--config", "shakespeare-cpu", "--out", &run, "--set", &path];
    args.extend(small);
    args.extend(steps("train.max_iters=10"));
    shown(&args);
    let kept: Vec<u64> = minigpt::snapshots(&place.path("run")).unwrap().iter().map(|at| at.step).collect();
    assert!(kept.first() == Some(&0) && kept.last() == Some(&10) && kept.len() >= 6, "{kept:?}");
    let seen = answer(&["inspect", &run, "--heads", "--snapshots", "--prompt", "abc"]);
    assert_eq!(rows(&seen["snapshots"]).len(), kept.len());
    let first = &seen["snapshots"][0];
    assert!(first["step"] == 0 && first["loss"].is_number() && first["heads"][0]["induction"].is_number());
    let picture = place.path("heads.svg").display().to_string();
    let said = shown(&["inspect", &run, "--heads", "--snapshots", "--svg", &picture]);
    assert_contains(&said, &["second half", "no head became an induction head"]);
    assert!(fs::read_to_string(&picture).unwrap().contains("induction score"));
    assert_contains(
        &failure(&["inspect", &format!("{run}/best"), "--heads", "--snapshots"], 1),
        &["no snapshots"],
    );
    // None where none are wanted.
    let bare = place.path("bare").display().to_string();
    let mut args = vec!["train", "--config", "shakespeare-cpu", "--out", &bare, "--set", &path];
    args.extend(small);
    args.extend(steps("train.max_iters=3").into_iter().chain(steps("train.snapshots=0")));
    shown(&args);
    assert!(minigpt::snapshots(&place.path("bare")).unwrap().is_empty());
}

/// The words of a line as a shell would part them: single quotes hold spaces together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// On a small run in the place of the demo's: what the tour tells people to type works and says something.
#[test]
fn every_command_of_the_tour_is_run() {
    let place = Place::new();
    let text =
        "What is the capital of France?<sep>The capital of Norway is Oslo. 智利的首都是哪里？<sep>挪威\n";
    let data = format!("data.path={}", place.write("text.txt", text.repeat(20)));
    let run = place.text("run");
    let shape = [
        "--n_layer=3",
        "--n_head=3",
        "--n_embd=12",
        "--block_size=80",
        "--batch_size=2",
        "--max_iters=2",
        "--quiet",
    ];
    shown(&[&["train", "--config", "shakespeare-cpu", "--out", &run, "--set", &data][..], &shape].concat());
    let pages = ["inside.md", "inside.zh.md"]
        .map(|name| fs::read_to_string(format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap());
    for page in pages {
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let commands: Vec<&str> =
            blocks.flat_map(str::lines).filter(|line| line.starts_with("minigpt inspect")).collect();
        assert!(commands.len() >= 15, "{commands:?}");
        for command in commands {
            let command = command.replace("runs/demo", &run).replace("runs/induction/layers-2", &run);
            let words = words(&command);
            let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            let done = crate::support::minigpt(&args).within(&place.path("")).run().success();
            assert!(done.stdout().lines().count() > 3, "{command}: {}", done.stdout());
        }
    }
}
