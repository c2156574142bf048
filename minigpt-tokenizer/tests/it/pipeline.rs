//! Tokenizers of other kinds: the same ids and texts as the `tokenizers` crate, from files that it wrote, and what it does not
//! promise itself: streams without half a character, special tokens that only the caller means, nothing dropped in silence.

use crate::agreement::{SAMPLE, text, their_ids};
use minigpt_tokenizer::{BpeTrainer, Tokenizer};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use tokenizers::Tokenizer as HuggingFace;

/// A file that the crate wrote, opened by it and by us.
struct Pair {
    theirs: HuggingFace,
    ours: Tokenizer,
    file: Vec<u8>,
}

fn pair(described: &Value) -> Pair {
    let theirs = HuggingFace::from_bytes(described.to_string()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    theirs.save(&path, false).unwrap();
    let ours = Tokenizer::open(&path).unwrap();
    assert!(matches!(ours, Tokenizer::Pipeline(_)));
    Pair { theirs, ours, file: std::fs::read(path).unwrap() }
}

fn special(tokens: &[(&str, u32)]) -> Value {
    let token = |(content, id): &(&str, u32)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        })
    };
    tokens.iter().map(token).collect()
}

/// A template that puts tokens around a text.
fn template(before: (&str, u32), behind: Option<(&str, u32)>) -> Value {
    let token = |(name, _): (&str, u32)| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let single: Vec<Value> =
        [Some(token(before)), Some(text("A")), behind.map(token)].into_iter().flatten().collect();
    let named =
        |(name, id): (&str, u32)| (name.to_owned(), json!({"id": name, "ids": [id], "tokens": [name]}));
    let tokens: Map<String, Value> = [Some(before), behind].into_iter().flatten().map(named).collect();
    json!({
        "type": "TemplateProcessing", "single": single, "pair": [text("A"), text("B")], "special_tokens": tokens
    })
}

fn numbered(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    tokens.into_iter().zip(0..).map(|(token, id): (String, u32)| (token, id.into())).collect()
}

fn with_template(mut described: Value, template: Value) -> Value {
    described["post_processor"] = template;
    described
}

/// Llama's kind: no words, a mark for spaces, bytes for what has no token.
fn byte_fallback() -> Value {
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let letters = "▁abcdefghijklmnopqrstuvwxyz你好，.".chars().map(String::from);
    let joined = ["▁t", "he", "▁the", "in", "ing", "▁▁", "你好"].map(str::to_owned);
    let first = ["<unk>", "<s>", "</s>"].map(str::to_owned);
    let merges =
        json!([["▁", "t"], ["h", "e"], ["▁t", "he"], ["i", "n"], ["in", "g"], ["▁", "▁"], ["你", "好"]]);
    json!({
        "added_tokens": special(&[("<unk>", 0), ("<s>", 1), ("</s>", 2)]),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "pre_tokenizer": null,
        "post_processor": template(("<s>", 1), None),
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": numbered(first.into_iter().chain(bytes).chain(letters).chain(joined)), "merges": merges
        }
    })
}

/// SentencePiece's other model, as T5 has it.
fn unigram() -> Value {
    let words = ["▁the", "the", "ing", "▁", "▁to", "be", "你好", "世界"].map(|word| (word.to_owned(), -4.0));
    let letters: std::collections::BTreeSet<char> = SAMPLE.chars().filter(|c| !c.is_whitespace()).collect();
    let letters = letters.into_iter().map(|letter| (letter.to_string(), -9.0));
    let first = [("<pad>".to_owned(), 0.0), ("<unk>".to_owned(), 0.0)];
    let vocab: Vec<(String, f64)> = first.into_iter().chain(words).chain(letters).collect();
    json!({
        "added_tokens": special(&[("<pad>", 0), ("<unk>", 1)]),
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
        "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true},
        "model": {"type": "Unigram", "unk_id": 1, "vocab": vocab, "byte_fallback": false}
    })
}

/// BERT's, which Chinese GPT-2 models have.
fn wordpiece() -> Value {
    let first = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"].map(str::to_owned);
    let letters: Vec<char> = ('a'..='z').chain("你好世界，！.,'-0123456789".chars()).collect();
    let words = ["the", "be", "question", "##ing", "##s", "to"].map(str::to_owned);
    let inside = letters.iter().map(|letter| format!("##{letter}"));
    let vocab =
        numbered(first.into_iter().chain(words).chain(letters.iter().map(|c| c.to_string())).chain(inside));
    let specials = special(&[("[PAD]", 0), ("[UNK]", 1), ("[CLS]", 2), ("[SEP]", 3)]);
    json!({
        "added_tokens": specials,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
            "lowercase": true
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(("[CLS]", 2), Some(("[SEP]", 3))),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab
        }
    })
}

/// Bytes as GPT-2 has them, but text cut as Llama 3 cuts it.
fn other_pattern() -> Value {
    let mut trainer = BpeTrainer::new(420, &["<|endoftext|>"]).unwrap();
    trainer.push(SAMPLE);
    let folder = tempfile::tempdir().unwrap();
    Tokenizer::Bpe(trainer.train(|_| {}).unwrap()).save(folder.path()).unwrap();
    let text = std::fs::read(folder.path().join("tokenizer.json")).unwrap();
    let mut file: Value = serde_json::from_slice(&text).unwrap();
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let cut =
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [cut, bytes]});
    file["normalizer"] = json!({"type": "NFC"});
    file["model"]["ignore_merges"] = true.into();
    file
}

static PAIRS: LazyLock<Vec<Pair>> =
    LazyLock::new(|| [byte_fallback(), unigram(), wordpiece(), other_pattern()].iter().map(pair).collect());

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut decoder = tokenizer.decoder();
    let mut text = String::new();
    for &id in ids {
        text.push_str(&decoder.push(id).unwrap());
    }
    text + decoder.finish().map_or("", |rest| rest.text())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ids_and_texts_are_those_of_the_crate(text in text()) {
        for Pair { theirs, ours, .. } in PAIRS.iter() {
            let ids = ours.encode(&text).unwrap();
            prop_assert_eq!(&ids, &their_ids(theirs, &text));
            prop_assert_eq!(ours.decode(&ids).unwrap(), theirs.decode(&ids, false).unwrap());
            prop_assert_eq!(streamed(ours, &ids), ours.decode(&ids).unwrap());
        }
    }

    /// However a text is torn, no part of a stream is half a character.
    #[test]
    fn any_ids_stream_as_they_decode_at_once(ids in prop::collection::vec(0_u32..300, 0..30)) {
        for Pair { ours, .. } in PAIRS.iter() {
            let ids: Vec<u32> = ids.iter().map(|id| id % ours.vocab_size() as u32).collect();
            prop_assert_eq!(streamed(ours, &ids), ours.decode(&ids).unwrap());
        }
    }

    #[test]
    fn text_may_come_in_pieces(parts in prop::collection::vec(text(), 0..5)) {
        for Pair { ours, .. } in PAIRS.iter() {
            let (mut encoder, mut ids) = (ours.encoder(), Vec::new());
            parts.iter().try_for_each(|part| encoder.push(part, &mut ids)).unwrap();
            encoder.finish(&mut ids).unwrap();
            prop_assert_eq!(ids, ours.encode(&parts.concat()).unwrap());
        }
    }
}

#[test]
fn a_prompt_begins_as_the_post_processor_says_and_does_not_end_so() {
    let [llama, t5, bert, _] = &PAIRS[..] else { panic!() };
    let begins = |pair: &Pair, text: &str| {
        let whole = pair.theirs.encode(text, true).unwrap().get_ids().to_vec();
        let ours = pair.ours.encode_with_special(text).unwrap();
        assert!(whole.starts_with(&ours), "{whole:?} {ours:?}");
        (ours[0], whole.len() - ours.len())
    };
    assert_eq!(begins(llama, "the thing"), (1, 0));
    assert_eq!(begins(bert, "to be, 你好"), (2, 1));
    assert_eq!(begins(t5, "the").1, 0);
    // Who writes it is not given it twice.
    let ids = llama.ours.encode_with_special("<s>the").unwrap();
    assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 1);
}

#[test]
fn names_of_special_tokens_are_text_unless_they_are_meant() {
    let llama = &PAIRS[0];
    let text = "the</s> thing";
    assert!(!llama.ours.encode(text).unwrap().contains(&2));
    assert!(llama.ours.encode_with_special(text).unwrap().contains(&2));
    assert_eq!(llama.ours.decode(&llama.ours.encode(text).unwrap()).unwrap(), text);
    // One of the two is guarded.
    let guarded = llama.ours.encode_with_guard("<\u{E000}/s>the</s>", '\u{E000}').unwrap();
    assert_eq!(guarded.iter().filter(|&&id| id == 2).count(), 1);
    assert_eq!(guarded.last(), Some(&2));
    assert_eq!(llama.ours.decode(&guarded).unwrap(), "</s>the</s>");
    // Only the very first word of a text has no space before it.
    let t5 = &PAIRS[1].ours;
    let [alone, guarded] =
        ["the<pad>the", "the<pad>the\u{E000}"].map(|text| t5.encode_with_guard(text, '\u{E000}').unwrap());
    assert_eq!(alone, guarded);
}

#[test]
fn a_text_beyond_a_megabyte_is_cut_at_the_same_places_however_it_comes() {
    let line = "the thing to be, 你好 the question\n";
    let text = line.repeat((2_500_000 / line.len()) + 1);
    for Pair { ours, .. } in [&PAIRS[0], &PAIRS[1]] {
        let (mut encoder, mut ids, mut rest) = (ours.encoder(), Vec::new(), text.as_str());
        while !rest.is_empty() {
            let cut = rest.char_indices().map(|(at, _)| at).nth(77_777).unwrap_or(rest.len());
            encoder.push(&rest[..cut], &mut ids).unwrap();
            rest = &rest[cut..];
        }
        encoder.finish(&mut ids).unwrap();
        assert!(ids == ours.encode(&text).unwrap());
    }
}

#[test]
fn a_text_beyond_a_megabyte_loses_nothing() {
    let line = "the thing to be, 你好 the question\n";
    let text = line.repeat((1_500_000 / line.len()) + 1);
    let llama = &PAIRS[0].ours;
    let decoded = llama.decode(&llama.encode(&text).unwrap()).unwrap();
    assert!(decoded.split_whitespace().eq(text.split_whitespace()));
}

#[test]
fn what_has_no_token_is_unknown_or_refused_and_never_dropped() {
    let [llama, t5, bert, _] = &PAIRS[..] else { panic!() };
    assert_eq!(llama.ours.unknown("a☃"), []);
    assert_eq!(t5.ours.unknown("the ☃ Ж"), ['☃', 'Ж']);
    assert_eq!(bert.ours.unknown("The ☃\u{0}"), ['☃']);
    let mut bare = byte_fallback();
    bare["model"]["byte_fallback"] = false.into();
    bare["model"]["unk_token"] = Value::Null;
    let bare = pair(&bare).ours;
    let error = bare.encode("the ☃").unwrap_err().to_string();
    assert!(error.starts_with("character 5 of the text is '☃'"), "{error}");
    assert_eq!(bare.leaving_out().encode("a☃").unwrap().len(), 2);
}

#[test]
fn a_file_is_written_as_it_was_read_with_what_lay_beside_it() {
    let Pair { ours, file, .. } = &PAIRS[2];
    let folder = tempfile::tempdir().unwrap();
    ours.save(folder.path()).unwrap();
    assert_eq!(&std::fs::read(folder.path().join("tokenizer.json")).unwrap(), file);
    let config = folder.path().join("tokenizer_config.json");
    std::fs::write(&config, "{\"tokenizer_class\": \"BertTokenizer\",  \"cls_token\": \"[CLS]\"}").unwrap();
    let again = Tokenizer::open(folder.path()).unwrap();
    assert_eq!(again.fingerprint(), ours.fingerprint());
    assert_ne!(again.fingerprint(), PAIRS[1].ours.fingerprint());
    let other = tempfile::tempdir().unwrap();
    again.save(other.path()).unwrap();
    let read =
        |folder: &tempfile::TempDir| std::fs::read(folder.path().join("tokenizer_config.json")).unwrap();
    assert_eq!(read(&other), read(&folder));
}

#[test]
fn settings_that_would_cut_or_fill_a_text_are_not_used() {
    let mut file = with_template(unigram(), Value::Null);
    file["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "<pad>"
    });
    let ids = pair(&file).ours.encode("the the the").unwrap();
    assert_eq!(ids, PAIRS[1].ours.encode("the the the").unwrap());
}
