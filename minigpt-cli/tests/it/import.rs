//! `minigpt import` as a person types it, on files that other tools wrote.

use crate::support::{Place, answer, assert_contains, failure, foreign as file, refused, shown, text};
use std::fs;
use std::path::Path;

#[test]
fn a_checkpoint_of_nanogpt_becomes_a_model_that_writes_text() {
    let place = Place::new();
    let out = place.path("model");
    let found = answer(&["import", text(&file("ckpt.pt")), "--out", text(&out), "--json"]);
    assert_eq!((&found["kind"], &found["tokenizer"]), (&"nanoGPT checkpoint".into(), &"meta.pkl".into()));
    assert_eq!(found["largest_difference"], 0.0);
    let written =
        answer(&["generate", "--model", text(&out), "--prompt", "你好ab", "--json", "--max-new-tokens", "3"]);
    assert_eq!(written["prompt_ids"], serde_json::json!([34, 35, 7, 8]));
    assert_eq!(written["completions"][0]["ids"].as_array().unwrap().len(), 3);
}

#[test]
fn folders_of_every_kind_become_the_same_model() {
    let place = Place::new();
    let logits = |source: &str| {
        let out = place.path(source);
        answer(&["import", text(&file(source)), "--out", text(&out), "--json"]);
        answer(&["inspect", "--model", text(&out), "--ids", "1,2,3", "--json", "--full"])["logits"].clone()
    };
    assert_eq!(logits("bin"), logits("shards"));
}

#[test]
fn what_is_in_the_way_is_replaced_only_when_asked() {
    let place = Place::new();
    let out = place.path("model");
    let import = ["import", text(&file("bin")).to_owned().leak(), "--out", text(&out)];
    assert_contains(&shown(&import), &["Hugging Face folder", "none found", "checked"]);
    assert!(refused(&import).contains("--force"), "{}", refused(&import));
    shown(&[&import[..], &["--force"]].concat());
}

#[test]
fn what_can_not_be_imported_is_refused_in_words_and_leaves_nothing() {
    let place = Place::new();
    let out = place.path("model");
    let strange = place.path("strange.pt");
    fs::write(&strange, "no checkpoint").unwrap();
    let import =
        |source: &str, more: &[&str]| refused(&[&["import", source, "--out", text(&out)][..], more].concat());
    assert!(import("nowhere", &[]).contains("no such file or folder"));
    assert!(import(text(&strange), &[]).contains("not a zip archive"));
    assert!(import(text(&file("bin")), &["--tokenizer", "gpt2"]).contains("do not belong together"));
    assert!(import(text(&file("bin")), &["--tokenizer", "char"]).contains("trained with"));
    assert!(import(text(&file("ckpt.pt")), &["--tokenizer", text(&strange)]).contains("strange.pt"));
    assert!(!out.exists());
    assert_eq!(place.names("").len(), 1, "nothing is left behind");
}

#[test]
fn a_quantised_gguf_file_stays_what_it_is_and_runs() {
    let place = Place::new();
    for (name, numbers) in [("q8_0", "q8_0, f32"), ("q4_k_m", "q6_k, q4_k, f32")] {
        let (source, out) = (file(&format!("gguf/{name}.gguf")), place.path(name));
        let found = answer(&["import", text(&source), "--out", text(&out), "--json"]);
        assert_eq!((&found["kind"], &found["dtype"]), (&"GGUF file".into(), &numbers.into()));
        assert_eq!((&found["dtype_written"], &found["largest_difference"]), (&numbers.into(), &0.0.into()));
        assert_eq!(fs::read(out.join("model.gguf")).unwrap(), fs::read(&source).unwrap());
        // The file alone is a model too, and the same one.
        let written = |model: &Path| {
            let prompt =
                ["--prompt", "the the 你好", "--temperature", "0", "--max-new-tokens", "4", "--json"];
            let mut answer = answer(&[&["generate", "--model", text(model)][..], &prompt].concat());
            answer.as_object_mut().unwrap().retain(|key, _| key == "completions" || key == "prompt_ids");
            answer
        };
        assert_eq!(written(&out), written(&source));
        assert_eq!(written(&out)["prompt_ids"].as_array().unwrap().len(), 10);
        // An import of what was imported changes nothing either.
        let again = place.path(&format!("{name}-again"));
        assert_eq!(
            answer(&["import", text(&out), "--out", text(&again), "--json"])["largest_difference"],
            0.0
        );
    }
}

#[test]
fn a_gguf_file_is_expanded_when_asked() {
    let place = Place::new();
    for (source, dtype) in [("q8_0", "f32"), ("q8_0", "bf16"), ("f16", "f16"), ("f16", "f32")] {
        let (source, out) = (file(&format!("gguf/{source}.gguf")), place.path("model"));
        let import = ["import", text(&source), "--out", text(&out), "--dtype", dtype, "--force", "--json"];
        let found = answer(&import);
        assert_eq!(found["dtype_written"], dtype);
        let (difference, most) =
            (found["largest_difference"].as_f64().unwrap(), if dtype == "f32" { 1e-4 } else { 0.5 });
        assert!(difference <= most, "{found}");
        assert!(out.join("model.safetensors").exists() && !out.join("model.gguf").exists());
    }
}

#[test]
fn a_chat_template_comes_along() {
    let place = Place::new();
    let (source, out) = (place.path("source"), place.path("out"));
    answer(&["import", text(&file("gguf/q8_0.gguf")), "--out", text(&source), "--json"]);
    fs::write(source.join("chat_template.jinja"), "{{ bos_token }}{{ messages[0].content }}").unwrap();
    answer(&["import", text(&source), "--out", text(&out), "--json"]);
    assert!(fs::read_to_string(out.join("chat_template.jinja")).unwrap().starts_with("{{ bos_token }}"));
    let config = fs::read_to_string(out.join("tokenizer_config.json")).unwrap();
    assert!(config.contains("<|endoftext|>"), "{config}");
    let gguf = place.path("m.gguf");
    answer(&[
        "export",
        "--model",
        text(&out),
        "--to",
        "gguf",
        "--dtype",
        "q8_0",
        "--out",
        text(&gguf),
        "--json",
    ]);
    let back = place.path("back");
    answer(&["import", text(&gguf), "--out", text(&back), "--json"]);
    assert!(back.join("chat_template.jinja").exists());
}

#[test]
fn gguf_files_that_are_malformed_or_of_other_models_are_refused_in_words() {
    let place = Place::new();
    let (out, path) = (place.path("out"), place.path("mutated.gguf"));
    let bytes = fs::read(file("gguf/q8_0.gguf")).unwrap();
    let import = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        refused(&["import", text(&path), "--out", text(&out)])
    };
    assert!(import(&bytes[..bytes.len() / 2]).contains("beyond the file"));
    assert!(import(&bytes[..100]).contains("count is larger than the rest of the file"));
    let at = bytes.windows(4).position(|window| window == b"gpt2").unwrap();
    let mut other = bytes;
    other[at..at + 4].copy_from_slice(b"lama");
    assert!(import(&other).contains("architecture \"lama\""));
    assert!(!out.exists());
}

#[test]
fn a_gguf_file_can_be_judged_and_trained_further() {
    let place = Place::new();
    let (model, data, run) = (file("gguf/q8_0.gguf"), place.path("text.txt"), place.path("run"));
    fs::write(&data, "the cat sat on the mat\n".repeat(200)).unwrap();
    let judged = answer(&["eval", "--model", text(&model), "--data", text(&data), "--json"]);
    assert!(judged["loss"].as_f64().unwrap() > 1.0);
    let config = place.path("config.toml");
    let settings = format!("[data]\npath = {:?}\n[train]\nmax_iters = 3\nbatch_size = 2\n", text(&data));
    fs::write(&config, settings).unwrap();
    let train = ["train", "--config", text(&config), "--from", text(&model), "--out", text(&run), "--quiet"];
    shown(&train);
    assert!(run.join("last/model.safetensors").exists());
}

#[test]
fn a_model_runs_in_fewer_bits_when_asked() {
    let place = Place::new();
    let out = place.path("model");
    answer(&["import", text(&file("gguf/f16.gguf")), "--out", text(&out), "--json"]);
    for dtype in ["f32", "f16", "bf16", "q8_0"] {
        let generate =
            ["generate", "--model", text(&out), "--prompt", "the", "--max-new-tokens", "3", "--json"];
        let written = answer(&[&generate[..], &["--dtype", dtype]].concat());
        assert_eq!(written["completions"][0]["ids"].as_array().unwrap().len(), 3, "{dtype}");
    }
    failure(&["generate", "--model", text(&out), "--prompt", "a", "--dtype", "q3"], 2);
}

#[test]
fn unknown_keys_of_a_base_survive_fine_tuning_and_resuming() {
    let place = Place::new();
    let (base, data, run) = (place.path("base"), place.path("text.txt"), place.path("run"));
    answer(&["import", text(&file("gguf/q8_0.gguf")), "--out", text(&base), "--dtype", "f32", "--json"]);
    let read =
        |path: &Path| -> serde_json::Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let mut config = read(&base.join("config.json"));
    config["task_specific_params"] = serde_json::json!({ "text-generation": { "max_length": 50 } });
    fs::write(base.join("config.json"), config.to_string()).unwrap();
    fs::write(&data, "the cat sat on the mat\n".repeat(200)).unwrap();
    let settings = place.path("config.toml");
    let train = |iterations: u32, more: &[&str]| {
        let toml =
            format!("[data]\npath = {:?}\n[train]\nmax_iters = {iterations}\nbatch_size = 2\n", text(&data));
        fs::write(&settings, toml).unwrap();
        let train = ["train", "--config", text(&settings), "--out", text(&run), "--quiet"];
        shown(&[&train[..], more].concat());
        for name in ["best", "last"] {
            let written = read(&run.join(name).join("config.json"));
            assert_eq!(written["task_specific_params"], config["task_specific_params"], "{name}");
            assert_eq!(written["eos_token_id"], config["eos_token_id"], "{name}");
        }
    };
    train(2, &["--from", text(&base)]);
    train(4, &["--resume"]);
}

/// The Chinese question answering model of a training script, with its vocabulary: imported, asked, exported.
#[test]
fn a_best_model_of_ones_own_becomes_a_model_that_answers() {
    let place = Place::new();
    let (out, source) = (place.text("model"), text(&file("own/best_model.pth")).to_owned());
    let shown =
        shown(&["import", "--from", &source, "--out", &out, "--vocab", text(&file("own/vocab.json"))]);
    let parts = [
        "state dictionary of the question answering model",
        "n_head=8, norm_position=pre",
        "8 heads",
        "vocab.json",
    ];
    assert_contains(&shown, &parts);
    let written =
        ["--prompt", "天空是什么颜色的？<sep>", "--temperature", "0", "--max-new-tokens", "3", "--json"];
    let answered = answer(&[&["generate", "--model", &out][..], &written].concat());
    assert_eq!(answered["prompt_ids"].as_array().unwrap().len(), 10);
    // The vocabulary lies beside the model: it is found without being named; and heads can be said.
    let other = place.text("other");
    let found = answer(&["import", &source, "--out", &other, "--set", "n_head=4"]);
    assert_eq!((&found["tokenizer"], &found["largest_difference"]), (&"vocab.json".into(), &0.0.into()));
    assert_contains(&found["notes"].to_string(), &["n_head=4 (as requested)", "activation_function=gelu,"]);
    assert_eq!(place.read_json("other/config.json")["n_head"], 4);
    let exported = place.text("exported");
    answer(&["export", "--model", &out, "--to", "hf", "--out", &exported]);
}

#[test]
fn a_textbook_model_of_ones_own_becomes_a_model_that_goes_on_from_ids() {
    let place = Place::new();
    for name in ["textbook", "textbook-sinusoidal"] {
        let out = place.text(name);
        let source = file(&format!("own/{name}.pth"));
        let copy = place.write(&format!("files/{name}.pth"), fs::read(source).unwrap());
        let found = answer(&["import", "--from", &copy, "--out", &out]);
        assert_eq!(found["kind"], "state dictionary of the textbook's model");
        assert_eq!(
            (&found["tokenizer"], &found["largest_difference"]),
            (&serde_json::Value::Null, &0.0.into())
        );
        let greedy = ["--ids", "30", "--temperature", "0", "--max-new-tokens", "20", "--json"];
        let written = answer(&[&["generate", "--model", &out][..], &greedy].concat());
        assert!(!written["completions"][0]["ids"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_state_dictionary_is_not_run_on_a_guess_and_other_files_are_not_told_what_they_are() {
    let place = Place::new();
    let model = text(&file("own/best_model.pth")).to_owned();
    assert_contains(&refused(&["inspect", "--model", &model, "--ids", "1"]), &["import it first"]);
    let out = place.text("out");
    let import = |source: &Path, set: &str| refused(&["import", text(source), "--out", &out, "--set", set]);
    assert_contains(
        &import(&file("ckpt.pt"), "n_head=2"),
        &["nanoGPT checkpoint describes its model itself"],
    );
    assert_contains(&import(Path::new(&model), "n_head=3"), &["n_embd 16 is not divisible by n_head 3"]);
    assert_contains(&import(Path::new(&model), "heads=3"), &["unknown setting model.heads"]);
    assert!(failure(&["import", "--out", &out], 2).contains("required"));
    assert!(!place.path("out").exists());
}
