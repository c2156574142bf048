//! Model folders: what is written is read again, and what is malformed or hostile is refused in words.

use candle_core::{Device, Tensor};
use minigpt_formats::hugging_face;
use minigpt_model::{Config, Gpt, Preset};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A small model with the switches of a preset.
fn small(preset: &str) -> Gpt {
    let config = Config::preset(preset).unwrap();
    let config = Config { vocab_size: 31, block_size: 16, n_layer: 2, n_head: 2, n_embd: 12, ..config };
    let config = Config { n_inner: config.n_inner.map(|_| 20), ..config };
    Gpt::new(config, 1, &Device::Cpu).unwrap()
}

fn logits(gpt: &Gpt) -> Vec<Vec<f32>> {
    gpt.logits(&gpt.ids(&[[1, 2, 3, 4]]).unwrap()).unwrap().get(0).unwrap().to_vec2().unwrap()
}

/// The same model, but for the order of sums: without vector instructions, weights of a file are added up in another one.
fn assert_same(again: &Gpt, gpt: &Gpt) {
    for (again, gpt) in logits(again).iter().flatten().zip(logits(gpt).iter().flatten()) {
        assert!((again - gpt).abs() <= 1e-6, "{again} is not {gpt}");
    }
}

fn load(folder: &Path) -> Result<Gpt, String> {
    minigpt_formats::load(folder, &Device::Cpu).map(|loaded| loaded.gpt).map_err(|e| e.to_string())
}

/// Tensors of a file as bytes, to be mutated and written again.
type Raw = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn read_raw(folder: &Path) -> Raw {
    let bytes = std::fs::read(folder.join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let entry = |(name, view): (String, TensorView)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(entry).collect()
}

fn write_raw(folder: &Path, raw: &Raw) {
    let views = raw.iter().map(|(name, (dtype, shape, data))| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
}

/// A saved model whose tensors were changed by `mutate`.
fn mutated(preset: &str, mutate: impl FnOnce(&mut Raw)) -> Result<Gpt, String> {
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&small(preset), folder.path()).unwrap();
    let mut raw = read_raw(folder.path());
    mutate(&mut raw);
    write_raw(folder.path(), &raw);
    load(folder.path())
}

#[test]
fn every_preset_is_the_same_model_after_saving_and_loading() {
    for preset in Preset::ALL.map(Preset::name) {
        let (gpt, folder) = (small(preset), tempfile::tempdir().unwrap());
        hugging_face::save(&gpt, folder.path()).unwrap();
        let again = load(folder.path()).unwrap();
        assert_eq!(again.config(), gpt.config(), "{preset}");
        assert_same(&again, &gpt);
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "no temporary file stays behind: {names:?}");
    }
}

#[test]
fn gpt2_folders_carry_every_bias_and_others_only_their_own() {
    let biases = |preset| {
        let folder = tempfile::tempdir().unwrap();
        hugging_face::save(&small(preset), folder.path()).unwrap();
        read_raw(folder.path()).keys().filter(|name| name.ends_with("bias")).count()
    };
    assert_eq!(biases("shakespeare-char"), 2 * 6 + 1);
    let rope = Config {
        position_embedding: minigpt_model::PositionEmbedding::Rope,
        ..small("gpt2").config().clone()
    };
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&Gpt::new(rope.with_bias(false), 1, &Device::Cpu).unwrap(), folder.path()).unwrap();
    assert!(read_raw(folder.path()).keys().all(|name| !name.ends_with("bias")));
}

#[test]
fn a_bias_that_another_tool_has_trained_is_used() {
    let ones = |raw: &mut Raw| {
        let (_, _, data) = raw.get_mut("h.0.mlp.c_fc.bias").unwrap();
        data.chunks_mut(4).for_each(|x| x.copy_from_slice(&1f32.to_le_bytes()));
    };
    let gpt = mutated("shakespeare-char", ones).unwrap();
    assert!(gpt.config().mlp_bias && !gpt.config().qkv_bias);
    assert_ne!(logits(&gpt), logits(&small("shakespeare-char")));
}

#[test]
fn prefixes_buffers_and_a_repeated_tied_head_are_accepted() {
    let gpt = mutated("gpt2", |raw| {
        let wte = raw["wte.weight"].clone();
        *raw = std::mem::take(raw).into_iter().map(|(name, t)| (format!("transformer.{name}"), t)).collect();
        raw.insert("lm_head.weight".to_owned(), wte);
        raw.insert("transformer.h.0.attn.bias".to_owned(), (Dtype::U8, vec![4], vec![1; 4]));
        raw.insert("transformer.h.1.attn.masked_bias".to_owned(), (Dtype::F32, vec![], vec![0; 4]));
    });
    assert_same(&gpt.unwrap(), &small("gpt2"));
}

#[test]
fn half_precision_weights_are_read_as_f32() {
    for (dtype, kind, tolerance) in
        [(Dtype::F16, candle_core::DType::F16, 1e-3), (Dtype::BF16, candle_core::DType::BF16, 1e-2)]
    {
        let gpt = mutated("qa", |raw| {
            for (half, shape, data) in raw.values_mut() {
                let floats: Vec<f32> =
                    data.chunks(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
                let tensor =
                    Tensor::from_vec(floats, &shape[..], &Device::Cpu).unwrap().to_dtype(kind).unwrap();
                let bytes = safetensors::View::data(&tensor).into_owned();
                (*half, *data) = (dtype, bytes);
            }
        });
        let (got, want) = (logits(&gpt.unwrap()), logits(&small("qa")));
        let difference =
            got.iter().flatten().zip(want.iter().flatten()).fold(0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(difference > 0.0 && difference < tolerance, "{dtype:?}: {difference}");
    }
}

#[test]
fn all_misfits_are_listed_at_once() {
    let error = mutated("gpt2", |raw| {
        raw.remove("wpe.weight");
        raw.remove("h.1.ln_2.bias");
        let moved = raw.remove("ln_f.weight").unwrap();
        raw.insert("ln_g.weight".to_owned(), moved);
        let (_, shape, _) = raw.get_mut("h.0.attn.c_attn.weight").unwrap();
        shape.reverse();
        let bytes = 4 * 12 * 2;
        raw.insert("h.0.mlp.c_proj.bias".to_owned(), (Dtype::I64, vec![12], vec![0; bytes]));
    })
    .unwrap_err();
    for part in [
        "missing: wpe.weight [16, 12]",
        "missing: h.1.ln_2.bias [12]",
        "missing: ln_f.weight [12]",
        "unexpected: ln_g.weight [12]",
        "wrong: h.0.attn.c_attn.weight is [36, 12], not [12, 36]",
        "wrong: h.0.mlp.c_proj.bias is of type I64, not f32, f16 or bf16",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
}

/// A saved model with a changed `config.json`.
fn with_config(key: &str, value: Value) -> Result<Gpt, String> {
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&small("gpt2"), folder.path()).unwrap();
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config[key] = value;
    std::fs::write(&path, config.to_string()).unwrap();
    load(folder.path())
}

#[test]
fn a_configuration_that_claims_too_much_is_refused_before_memory_is_asked_for() {
    assert!(with_config("n_layer", json!(1u64 << 40)).unwrap_err().contains("n_layer"));
    assert!(with_config("n_layer", json!(4000)).unwrap_err().contains("missing: h.2.ln_1.weight"));
    assert!(with_config("vocab_size", json!(1 << 29)).unwrap_err().contains("wte.weight is [31, 12]"));
    assert!(with_config("n_positions", json!(1 << 23)).unwrap_err().contains("wpe.weight is [16, 12]"));
    assert!(with_config("n_head", json!("four")).unwrap_err().contains("n_head is \"four\""));
}

#[test]
fn malformed_files_are_errors_at_every_length() {
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&small("gpt2"), folder.path()).unwrap();
    let path = folder.path().join("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 1, 7, 8, 9, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(load(folder.path()).unwrap_err().contains("model.safetensors"), "{length} bytes");
    }
    let longer = [whole, vec![0]].concat();
    std::fs::write(&path, &longer).unwrap();
    assert!(load(folder.path()).is_err());
}

#[test]
fn hostile_headers_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&small("gpt2"), folder.path()).unwrap();
    let write = |length: u64, header: &str| {
        let bytes = [&length.to_le_bytes()[..], header.as_bytes()].concat();
        std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        load(folder.path()).unwrap_err()
    };
    let honest = |header: &str| write(header.len() as u64, header);
    write(u64::MAX, "{}");
    write(1 << 40, "{}");
    honest(r#"{"wte.weight":{"dtype":"F32","shape":[1099511627776,1099511627776],"data_offsets":[0,16]}}"#);
    honest(r#"{"wte.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]}}"#);
    honest(r#"{"wte.weight":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}"#);
    honest("not json at all");
}

#[test]
fn folders_that_are_not_models_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(load(&folder.path().join("nowhere")).unwrap_err().contains("no such file or folder"));
    assert!(load(folder.path()).unwrap_err().contains("config.json"));
    std::fs::write(folder.path().join("config.json"), r#"{"model_type": "llama"}"#).unwrap();
    assert!(load(folder.path()).unwrap_err().contains("llama"));
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    assert!(load(folder.path()).unwrap_err().contains("model.safetensors"));
    assert!(load(&folder.path().join("config.json")).unwrap_err().contains("not a folder"));
}

#[test]
fn a_tensor_that_a_header_has_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&small("gpt2"), folder.path()).unwrap();
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap().trim_end();
    let start = header.find("\"wte.weight\"").unwrap();
    let entry = &header[start..start + header[start..].find('}').unwrap() + 1];
    let doubled = format!("{},{entry}}}", header.strip_suffix('}').unwrap());
    let doubled = format!("{doubled:<width$}", width = doubled.len().next_multiple_of(8));
    let file = [&(doubled.len() as u64).to_le_bytes()[..], doubled.as_bytes(), &bytes[8 + length..]].concat();
    std::fs::write(&path, file).unwrap();
    let error = minigpt_formats::load(folder.path(), &Device::Cpu).unwrap_err().to_string();
    assert!(error.contains("has wte.weight twice"), "{error}");
}

/// What the system does not say is no no: a failing disk (here a link that leads to itself) must not make another file of
/// the folder the one that was meant.
#[test]
#[cfg(unix)]
fn a_file_that_can_not_be_looked_at_is_not_taken_for_one_that_is_not_there() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/bin");
    let place = tempfile::tempdir().unwrap();
    for name in ["config.json", "pytorch_model.bin"] {
        std::fs::copy(files.join(name), place.path().join(name)).unwrap();
    }
    load(place.path()).unwrap();
    let link = |name| std::os::unix::fs::symlink(name, place.path().join(name)).unwrap();
    link("tokenizer.json");
    let model = minigpt_formats::OnDisk::open(place.path()).unwrap();
    assert!(model.own_tokenizer().is_err(), "it has a tokenizer that can't be read");
    link("model.safetensors");
    let error = load(place.path()).unwrap_err();
    assert!(error.contains("model.safetensors"), "{error}");
}

#[test]
fn a_model_without_positions_survives_its_folder_and_is_refused_where_it_can_not_be() {
    let shape = Config {
        position_embedding: minigpt_model::PositionEmbedding::None,
        ..small("gpt2").config().clone()
    };
    let gpt = Gpt::new(shape, 1, &Device::Cpu).unwrap();
    let folder = tempfile::tempdir().unwrap();
    hugging_face::save(&gpt, folder.path()).unwrap();
    let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
    assert!(
        config.contains(r#""position_embedding": "none""#) && config.contains(r#""minigpt""#),
        "{config}"
    );
    assert!(!read_raw(folder.path()).contains_key("wpe.weight"));
    let again = load(folder.path()).unwrap();
    assert_eq!(again.config(), gpt.config());
    assert_same(&again, &gpt);
    for refusal in
        [minigpt_formats::nanogpt::refusal(gpt.config()), minigpt_formats::gguf::refusal(gpt.config())]
    {
        assert!(refusal.unwrap().to_string().contains("positions that are not learned"));
    }
}
