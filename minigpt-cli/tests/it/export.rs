//! `minigpt export` as a person types it.

use crate::support::{self, Place, SPECIAL, answer, minigpt, refused};
use minigpt_formats::hugging_face;
use minigpt_formats::torch::{TorchArchive, Value as PickleValue};
use minigpt_model::{Config, Device, Gpt, Tensor, Weight};
use minigpt_tokenizer::{BpeTrainer, Tokenizer};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A small model of a preset's kind, with more entries in its vocabulary than its tokenizer has.
fn model_of(place: &Place, name: &str, preset: &str, tokenizer: &Tokenizer) -> String {
    let shape = Config { n_embd: 32, ..support::small(tokenizer.vocab_size() + 3) };
    let Config { vocab_size, block_size, n_layer, n_head, n_embd, n_inner, .. } = shape;
    let preset = Config::preset(preset).unwrap();
    let shape = Config { vocab_size, block_size, n_layer, n_head, n_embd, n_inner, ..preset };
    place.model(name, shape, Some(tokenizer))
}

fn bpe() -> Tokenizer {
    let mut trainer = BpeTrainer::new(300, &["<|endoftext|>"]).unwrap();
    trainer.push("the cat sat on the mat. 猫坐在垫子上。");
    Tokenizer::Bpe(trainer.train(|_| {}).unwrap())
}

fn characters() -> Tokenizer {
    support::characters(&SPECIAL, "abc你好")
}

#[test]
fn a_folder_in_half_the_bytes_and_several_files_is_nearly_the_same_model() {
    let place = Place::new();
    let (model, out) = (model_of(&place, "model", "gpt2", &bpe()), place.text("half"));
    let export = ["export", "--model", &model, "--to", "hf", "--out", &out, "--dtype", "f16", "--json"];
    let written = answer(&export);
    let difference = written["largest_difference"].as_f64().unwrap();
    assert!(difference > 0.0 && difference < 1e-2, "{difference}");
    let config: Value = serde_json::from_slice(&fs::read(place.path("half/config.json")).unwrap()).unwrap();
    assert_eq!(config["dtype"], "float16");
    let size = |name: &str| fs::metadata(place.path(name).join("model.safetensors")).unwrap().len();
    assert!(size("half") < size("model") * 6 / 10);
    assert!(refused(&export).contains("--force"));
    let logits = |name: &str| {
        answer(&["inspect", "--model", &place.text(name), "--ids", "1,2,3", "--json", "--full"])["logits"]
            .clone()
    };
    let (model, out) = (place.text("model"), place.text("whole"));
    answer(&["export", "--model", &model, "--to", "hf", "--out", &out, "--json"]);
    assert_eq!(logits("whole"), logits("model"));
}

#[test]
fn weights_can_be_shared_out_among_files() {
    let place = Place::new();
    let tokenizer = bpe();
    let shape =
        Config { vocab_size: 20_000, n_layer: 1, n_head: 1, n_embd: 32, block_size: 8, ..Config::default() };
    let (model, out) = (place.model("model", shape, Some(&tokenizer)), place.text("shards"));
    answer(&["export", "--model", &model, "--to", "hf", "--out", &out, "--max-shard-size", "1", "--json"]);
    let index = fs::read(place.path("shards/model.safetensors.index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert_eq!(index["weight_map"]["wte.weight"], "model-00002-of-00002.safetensors");
    let total = index["metadata"]["total_size"].as_u64().unwrap();
    assert_eq!(total, 4 * (20_000 * 32 + 8 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32));
    assert!(!place.path("shards/model.safetensors").exists());
    // Shards are ours to replace when asked.
    answer(&["export", "--model", &model, "--to", "hf", "--out", &out, "--force", "--json"]);
    assert!(!place.path("shards/model-00001-of-00002.safetensors").exists());
    let shown = answer(&["inspect", "--model", &out, "--ids", "1,2,3", "--json"]);
    assert!(shown["loss"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_gguf_file_is_written_in_every_type() {
    let place = Place::new();
    let tokenizer = bpe();
    let config = Config { n_embd: 64, ..support::small(tokenizer.vocab_size()) };
    let model = place.model("model", config, Some(&tokenizer));
    let mut sizes = Vec::new();
    for dtype in ["f32", "f16", "q8_0", "Q6_K", "Q5_K_M", "q5_k_s", "Q4_K_M", "q4_k_s", "q3_k_m"] {
        let out = place.text(&format!("{dtype}.gguf"));
        let written =
            answer(&["export", "--model", &model, "--to", "gguf", "--out", &out, "--dtype", dtype, "--json"]);
        // Each tensor is somewhere: four matrices of a layer, two tables, and all norms and biases.
        let tensors = written["tensors"].as_array().unwrap();
        assert_eq!(tensors.iter().map(|of| of["tensors"].as_u64().unwrap()).sum::<u64>(), 2 * 12 + 4);
        let named = tensors.iter().any(|of| dtype.to_lowercase().starts_with(of["dtype"].as_str().unwrap()));
        // In this small model all layers are among those to which the _m types give more bits.
        assert!(named || dtype.to_lowercase().ends_with("_m"), "{written}");
        assert_eq!(&fs::read(&out).unwrap()[..4], b"GGUF");
        sizes.push(written["bytes"].as_u64().unwrap());
        let difference = written["largest_difference"].as_f64().unwrap();
        assert!(
            if dtype == "f32" { difference < 1e-5 } else { difference > 0.0 && difference < 0.1 },
            "{written}"
        );
    }
    let [whole, half, quarter, .., least] = sizes[..] else { panic!("{sizes:?}") };
    assert!(whole > half && half > quarter && sizes[3..].iter().all(|&size| size < quarter), "{sizes:?}");
    assert_eq!(sizes.iter().min(), Some(&least), "{sizes:?}");
    let nano = model_of(&place, "nano", "shakespeare-char", &bpe());
    let notes =
        answer(&["export", "--model", &nano, "--to", "gguf", "--out", &place.text("n.gguf"), "--json"]);
    assert!(notes["notes"][0].as_str().unwrap().contains("GELU"), "{notes}");
}

#[test]
fn a_gguf_file_is_what_its_type_says_or_is_refused() {
    let place = Place::new();
    let tokenizer = bpe();
    let of_width = |n_embd| Config { n_embd, ..support::small(tokenizer.vocab_size()) };
    let export = |model: &str, out: &str, dtype: &str| {
        ["export", model, "--to", "gguf", "--out", out, "--dtype", dtype].map(str::to_owned)
    };
    let narrow = place.model("narrow", of_width(96), Some(&tokenizer));
    let args = export(&narrow, &place.text("narrow.gguf"), "q4_k");
    let error = refused(&args.each_ref().map(String::as_str));
    support::assert_contains(&error, &["no matrix", "q4_k", "rows here have 96, 384", "use q8_0"]);
    assert!(!place.path("narrow.gguf").exists());
    // Some fit, and what became of the others is said.
    let wide = place.model("wide", of_width(64), Some(&tokenizer));
    let args = export(&wide, &place.text("wide.gguf"), "q4_k_s");
    let said = minigpt(&args.each_ref().map(String::as_str)).run().success();
    let shown = ["7 of 9 matrices are q5_0, q5_1, q8_0", "2 × q4_k (", "19 × f32 ("];
    support::assert_contains(said.stdout(), &shown);
}

/// Regression: GPT-2's files hold every bias, and those that a model is made without were counted as well.
#[test]
fn a_model_has_as_many_parameters_in_a_gguf_file_as_in_its_folder() {
    let place = Place::new();
    let tokenizer = bpe();
    let all = support::small(tokenizer.vocab_size());
    for (name, config) in [("all", all.clone()), ("none", all.with_bias(false))] {
        let model = place.model(name, config, Some(&tokenizer));
        let file = place.text(&format!("{name}.gguf"));
        answer(&["export", &model, "--to", "gguf", "--out", &file, "--json"]);
        let count = |from: &str, out: &str| {
            let folder = place.text(&format!("{name}-{out}"));
            answer(&["import", from, "--out", &folder, "--json"])["parameters"].as_u64().unwrap()
        };
        assert_eq!(count(&file, "file"), count(&model, "folder"), "{name}");
    }
}

#[test]
fn what_is_of_no_use_to_a_vocabulary_is_refused() {
    let place = Place::new();
    let model = model_of(&place, "c", "gpt2", &characters());
    let out = place.text("v.json");
    for option in [&["--dtype", "f16"][..], &["--no-check"]] {
        let args = [&["export", &model, "--to", "vocab", "--out", &out], option].concat();
        support::assert_contains(&refused(&args), &[option[0], "a vocabulary has none"]);
    }
}

#[test]
fn a_checkpoint_for_nanogpt_comes_back_as_the_same_model() {
    let place = Place::new();
    let plain = support::characters(&[], "abc你好");
    let (model, out) = (model_of(&place, "model", "shakespeare-char", &plain), place.text("ckpt.pt"));
    let written = answer(&["export", "--model", &model, "--to", "nanogpt", "--out", &out, "--json"]);
    assert_eq!(written["largest_difference"], 0.0);
    assert!(written["notes"][0].as_str().unwrap().contains("meta.pkl"), "{written}");
    let back = place.text("back");
    let found = answer(&["import", &out, "--out", &back, "--json"]);
    assert_eq!((&found["tokenizer"], &found["largest_difference"]), (&"meta.pkl".into(), &0.0.into()));
    let ids = |model: &str| answer(&["inspect", "--model", model, "--prompt", "好a", "--json", "--full"]);
    assert_eq!(ids(&model), ids(&back));
}

/// The number of a field of an exported checkpoint, such as `optimizer/param_groups/0/lr`.
fn number(root: &PickleValue, path: &str) -> f64 {
    let found = path.split('/').fold(root, |value, part| match part.parse::<usize>() {
        Ok(at) => &value.as_list().unwrap()[at],
        Err(_) => value.get(part).unwrap_or_else(|| panic!("{path} is missing")),
    });
    match found {
        PickleValue::Float(number) => *number,
        PickleValue::Int(number) => *number as f64,
        other => panic!("{path} is {other:?}"),
    }
}

#[test]
fn a_run_takes_its_step_its_best_loss_and_its_optimizer_along_to_nanogpt() {
    let place = Place::new();
    let text = place.write("text.txt", "the cat sat on the mat. a dog ran by the sea. ".repeat(60));
    let config = place.write(
        "config.toml",
        format!(
            "[model]\npreset = \"shakespeare-char\"\nn_layer = 1\nn_head = 2\nn_embd = 16\nblock_size = 16\ndropout = 0.0\n\
             [data]\npath = {text:?}\n[train]\nbatch_size = 4\nmax_iters = 6\nwarmup_iters = 2\neval_interval = 3\n\
             eval_iters = 2\nlog_interval = 1\nsave_interval = 2\nlearning_rate = 2e-3\nbeta2 = 0.97\n\
             weight_decay = 0.2\noptimizer = \"adamw\"\n"
        ),
    );
    let run = place.text("run");
    minigpt(&["train", "--quiet", "--config", &config, "--out", &run]).run().success();
    let export = |name: &str| {
        let (model, out) = (format!("{run}/{name}"), place.text(&format!("{name}.pt")));
        answer(&["export", "--model", &model, "--to", "nanogpt", "--out", &out, "--force", "--json"]);
        fs::read(out).unwrap()
    };
    let moments = |root: &PickleValue| match root.get("optimizer").unwrap().get("state").unwrap() {
        PickleValue::Dict(state) => state.len(),
        other => panic!("{other:?}"),
    };
    let [last, best] = ["last", "best"].map(export);
    let [last, best] = [&last, &best].map(|bytes| TorchArchive::open(bytes).unwrap().root);
    assert_eq!(number(&last, "iter_num"), 6.0);
    assert!(moments(&last) > 0);
    let best_step = number(&best, "iter_num");
    assert!(best_step == 3.0 || best_step == 6.0, "{best_step}");
    assert_eq!(moments(&best) > 0, best_step == 6.0, "the moments are those of step 6");
    for root in [&last, &best] {
        let group = |name: &str| number(root, &format!("optimizer/param_groups/0/{name}"));
        assert_eq!((group("lr"), group("weight_decay"), group("betas/1")), (2e-3, 0.2, 0.97));
        let loss = number(root, "best_val_loss");
        assert!(loss > 0.0 && loss < 10.0, "{loss}");
    }
}

#[test]
fn what_the_other_tool_can_not_express_is_refused_with_the_reason() {
    let place = Place::new();
    let (characters, textbook) =
        (model_of(&place, "c", "gpt2", &characters()), model_of(&place, "t", "textbook", &bpe()));
    let out = place.text("out");
    let export = |model: &str, to: &str, more: &[&str]| {
        refused(&[&["export", "--model", model, "--to", to, "--out", &out][..], more].concat())
    };
    assert!(export(&characters, "gguf", &[]).contains("cannot tokenize single characters"));
    assert!(export(&textbook, "gguf", &[]).contains("ReLU"));
    assert!(export(&textbook, "nanogpt", &[]).contains("ReLU"));
    assert!(export(&characters, "hf", &["--dtype", "q8_0"]).contains("q8_0"));
    assert!(export(&textbook, "gguf", &["--dtype", "bf16"]).contains("f16"));
    assert!(export(&textbook, "vocab", &[]).contains("BPE"));
    assert!(export(&characters, "hf", &["--max-shard-size", "0"]).contains("--max-shard-size"));
    assert!(export(&textbook, "gguf", &["--max-shard-size", "5"]).contains("--to hf"));
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_vocabulary_goes_out_and_comes_in_again() {
    let place = Place::new();
    let model = model_of(&place, "model", "qa", &characters());
    let out = place.text("vocabulary.json");
    answer(&["export", "--model", &model, "--to", "vocab", "--out", &out, "--json"]);
    let vocabulary: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(vocabulary["word2id"]["<sep>"], 2);
    assert_eq!(Tokenizer::open(Path::new(&out)).unwrap().encode("你好").unwrap().len(), 2);
}

/// Regression: 1e6 is infinite in f16, every logit was NaN, and the export said that nothing differed.
#[test]
fn an_export_that_overflows_fails_names_the_tensor_and_leaves_nothing() {
    let place = Place::new();
    let model = model_of(&place, "model", "gpt2", &bpe());
    let gpt = minigpt_formats::load(Path::new(&model), &Device::Cpu).unwrap().gpt;
    let weight = |parameter: minigpt_model::Parameter| {
        let mut values = parameter.tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        if parameter.name == "h.1.mlp.c_fc.weight" {
            values[7] = 1e6;
        }
        let tensor = Tensor::from_vec(values, parameter.tensor.dims(), &Device::Cpu).unwrap();
        (parameter.name, Weight::Plain(tensor))
    };
    let weights = gpt.parameters().into_iter().map(weight).collect();
    let gpt = Gpt::from_tensors(gpt.config().clone(), weights).unwrap();
    hugging_face::save(&gpt, Path::new(&model)).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    for (to, out) in [("hf", "out/half"), ("gguf", "out/half.gguf")] {
        let out = place.text(out);
        let error = refused(&["export", "--model", &model, "--to", to, "--out", &out, "--dtype", "f16"]);
        assert!(error.contains("h.1.mlp.c_fc.weight overflows"), "{error}");
        assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 0, "{to}");
        answer(&["export", "--model", &model, "--to", to, "--out", &out, "--json"]);
        let _ = fs::remove_dir_all(&out).or_else(|_| fs::remove_file(&out));
    }
    let out = place.text("out/imported");
    let error = refused(&["import", &model, "--out", &out, "--dtype", "f16"]);
    assert!(error.contains("h.1.mlp.c_fc.weight overflows"), "{error}");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 0);
}

/// A vocabulary with `<sep>` tells how its model is asked, though nothing else does; an end of text beside it is not the end
/// of an answer.
#[test]
fn a_model_of_questions_takes_its_template_and_its_end_along() {
    let mut trainer = BpeTrainer::new(300, &[&["<|endoftext|>"], &SPECIAL[..]].concat()).unwrap();
    trainer.push("the cat sat on the mat. 猫坐在垫子上。");
    let (place, tokenizer) = (Place::new(), Tokenizer::Bpe(trainer.train(|_| {}).unwrap()));
    let separator = tokenizer.special_id("<sep>").unwrap();
    let model = place.model("model", support::small(tokenizer.vocab_size()), Some(&tokenizer));
    let (folder, file) = (place.text("folder"), place.text("model.gguf"));
    answer(&["export", "--model", &model, "--format", "hf", "--out", &folder]);
    answer(&["export", "--model", &folder, "--to", "gguf", "--out", &file]);
    assert_eq!(place.read_text("folder/chat_template.jinja"), "{{ messages[-1]['content'] }}<sep>");
    let tokens = place.read_json("folder/tokenizer_config.json");
    assert_eq!((&tokens["eos_token"], &tokens["pad_token"]), (&"<sep>".into(), &"<pad>".into()));
    for name in ["config", "generation_config"] {
        assert_eq!(place.read_json(&format!("folder/{name}.json"))["eos_token_id"], separator, "{name}");
    }
    // All three are asked the same, and end the same.
    let ask = |model: &str| {
        let done = minigpt(&["generate", "--model", model, "-p", "the cat", "--json", "-n", "9"]);
        let answer = done.run().success().json();
        (answer["prompt_ids"].clone(), answer["completions"].clone())
    };
    assert_eq!(ask(&folder), ask(&model));
    assert_eq!(ask(&file).0, ask(&model).0);
    answer(&["import", &file, "--out", &place.text("back")]);
    assert_eq!(place.read_json("back/config.json")["eos_token_id"], separator);
}
