//! Tokenizers on disk: what is written opens again, and what is wrong or foreign is refused by name.

use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use serde_json::{Value, json};
use std::path::Path;

const TEXT: &str = "It's 中文, isn't it?\r\n  你好\t<sep>🙂\u{0}";

fn open(name: &str, content: &str) -> Result<Tokenizer, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    Tokenizer::open(&path).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}").replace(&format!("{}/", folder.path().display()), "")
    })
}

fn refusal(content: &Value) -> String {
    open("tokenizer.json", &content.to_string()).expect_err("this should be refused")
}

fn saved(tokenizer: &Tokenizer) -> Value {
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path()).unwrap();
    read(&folder.path().join("tokenizer.json"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn characters() -> Tokenizer {
    Tokenizer::Char(CharTokenizer::from_text(&["<pad>", "<unk>", "<sep>"], TEXT.chars()).unwrap())
}

/// A byte-level BPE of three tokens and one merge.
fn small_bpe() -> Value {
    json!({
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    })
}

fn with(mut file: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    file.pointer_mut(parent).unwrap()[key] = value;
    file
}

#[test]
fn a_saved_tokenizer_opens_as_the_same() {
    for tokenizer in [Tokenizer::gpt2(), characters()] {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("new/folder");
        tokenizer.save(&made).unwrap();
        for path in [made.clone(), made.join("tokenizer.json")] {
            let again = Tokenizer::open(&path).unwrap();
            assert_eq!(again.fingerprint(), tokenizer.fingerprint());
            assert_eq!(
                again.encode_with_special(TEXT).unwrap(),
                tokenizer.encode_with_special(TEXT).unwrap()
            );
        }
        let left: Vec<_> =
            std::fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}

#[test]
fn fingerprints_tell_tokenizers_apart() {
    let plain = Tokenizer::Char(CharTokenizer::from_text(&[], TEXT.chars()).unwrap());
    assert_ne!(plain.fingerprint(), characters().fingerprint());
    assert_ne!(plain.fingerprint(), Tokenizer::gpt2().fingerprint());
    // Written in data sets and checkpoints: it may not change between versions.
    assert_eq!(Tokenizer::gpt2().fingerprint(), "61b11c157ead45a51d332c8f6f396bf1");
}

#[test]
fn a_vocabulary_file_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vocab.json");
    let Tokenizer::Char(tokenizer) = characters() else { unreachable!() };
    tokenizer.save_vocabulary(&path).unwrap();
    let file = read(&path);
    assert_eq!(file["word2id"]["<sep>"], 2);
    assert_eq!(file["id2word"]["1"], "<unk>");
    for path in [path.as_path(), folder.path()] {
        assert_eq!(Tokenizer::open(path).unwrap().fingerprint(), characters().fingerprint());
    }
}

#[test]
fn a_vocabulary_file_may_start_with_a_byte_order_mark_and_list_ids_in_any_order() {
    let content = "\u{FEFF}{\"id2word\": {\"1\": \"b\", \"0\": \"a\"}, \"word2id\": {\"b\": 1, \"a\": 0}}";
    assert_eq!(open("v.json", content).unwrap().encode("ab").unwrap(), [0, 1]);
}

#[test]
fn the_words_of_a_vocabulary_file_may_be_a_list() {
    let content = r#"{"word2id": {"<pad>": 0, "b": 2, "你": 1}, "id2word": ["<pad>", "你", "b"]}"#;
    assert_eq!(open("v.json", content).unwrap().encode("b你").unwrap(), [2, 1]);
}

#[test]
fn a_vocabulary_file_that_contradicts_itself_is_refused_with_the_entry() {
    let cases = [
        (
            r#"{"word2id": {"a": 0, "b": 2}, "id2word": {}}"#,
            r#""b" has id 2 in a vocabulary of 2 tokens, but no token has id 1"#,
        ),
        (r#"{"word2id": {"a": 0, "b": 0}, "id2word": {}}"#, r#""a" and "b" both have id 0"#),
        (r#"{"word2id": {"a": 0}, "id2word": {"0": "b"}}"#, r#"id 0 is "a" in word2id but "b" in id2word"#),
        (r#"{"word2id": {"a": 0}, "id2word": {}}"#, r#"word2id has "a" with id 0, which id2word lacks"#),
        (r#"{"word2id": {}, "id2word": {"0": "a"}}"#, r#"id2word has "a" with id 0, which word2id lacks"#),
        (r#"{"word2id": {"a": 0}, "id2word": {"zero": "a"}}"#, r#"id2word: "zero" is not an id"#),
        (r#"{"word2id": {"a": 0}, "id2word": {"0": "a", "00": "a"}}"#, r#"id2word: "00" is not an id"#),
        (r#"{"word2id": {"ab": 0}, "id2word": {"0": "ab"}}"#, r#"the word "ab" is neither one character"#),
        (r#"{"word2id": {"": 0}, "id2word": {"0": ""}}"#, r#"the word "" is neither one character"#),
        (r#"{"word2id": {"a": 0, "a": 0}, "id2word": {"0": "a"}}"#, r#"the key "a" appears twice"#),
        (r#"{"word2id": {"a": 0}, "id2word": {"0": "a", "0": "a"}}"#, r#"the key "0" appears twice"#),
        (r#"{"word2id": {"a": 0}, "word2id": {"a": 0}, "id2word": {}}"#, "duplicate field `word2id`"),
        (r#"{"word2id": {"a": "0"}, "id2word": {"0": "a"}}"#, r#"invalid type: string "0", expected u32"#),
        (r#"{"word2id": {"a": -1}, "id2word": {"0": "a"}}"#, "invalid value: integer `-1`, expected u32"),
        (r#"{"word2id": {"a": 0}, "id2word": {"0": 5}}"#, "invalid type: integer `5`, expected a string"),
        (r#"{"word2id": {"a": 0}, "id2word": ["b"]}"#, r#"id 0 is "a" in word2id but "b" in id2word"#),
        (
            r#"{"word2id": {"a": 0}, "id2word": ["a", "b"]}"#,
            r#"id2word has "b" with id 1, which word2id lacks"#,
        ),
        (r#"{"word2id": {"a": 0}, "id2word": [0]}"#, "invalid type: integer `0`, expected a string"),
        (r#"{"word2id": {"a": 0}}"#, r#"a vocabulary file needs "id2word""#),
        (r#"{"a": 0}"#, r#"neither a tokenizer.json (no "model") nor a vocabulary file"#),
        ("", "EOF while parsing"),
        ("[]", "v.json: not a tokenizer's JSON"),
        ("{\"word2id\": {\"\\ud800\": 0}}", "v.json: not a tokenizer's JSON"),
    ];
    for (content, expected) in cases {
        let error = open("v.json", content).expect_err(content);
        assert!(error.contains(expected), "{content} gave: {error}");
    }
}

#[test]
fn invalid_utf8_in_a_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.json");
    std::fs::write(&path, b"{\"word2id\": {\"\xE4\xBD\": 0}}").unwrap();
    assert!(Tokenizer::open(&path).is_err());
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(Tokenizer::open(&path).unwrap_err().to_string().contains("is larger than"));
}

#[test]
fn a_file_that_never_ends_is_not_read_to_the_end() {
    assert!(Tokenizer::open(Path::new("/dev/zero")).is_err());
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let deep =
        format!(r#"{{"pre_tokenizer": {}"#, r#"{"type": "Sequence", "pretokenizers": ["#.repeat(100_000));
    assert!(open("tokenizer.json", &deep).unwrap_err().contains("recursion limit"));
}

#[test]
fn a_missing_file_or_an_empty_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = Tokenizer::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("holds neither tokenizer.json nor"), "{error}");
    let missing = folder.path().join("no.json");
    assert!(Tokenizer::open(&missing).unwrap_err().to_string().contains("could not read"));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Tokenizer::gpt2().save(&file.join("below")).unwrap_err().to_string();
    assert!(error.contains("could not create the folder"), "{error}");
}

#[test]
fn byte_level_bpe_opens_in_each_way_of_writing_it() {
    let pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    let split =
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
    let both = json!({"type": "Sequence", "pretokenizers": [split, bytes]});
    for file in [
        small_bpe(),
        with(small_bpe(), "/model/merges", json!([["a", "b"]])),
        with(small_bpe(), "/model/type", Value::Null),
        with(small_bpe(), "/pre_tokenizer", both),
        with(small_bpe(), "/post_processor", json!({"type": "ByteLevel", "add_prefix_space": true})),
    ] {
        let tokenizer = open("tokenizer.json", &file.to_string()).unwrap();
        assert_eq!(tokenizer.encode("aabb").unwrap(), [0, 2, 1]);
    }
}

#[test]
fn what_a_post_processor_leaves_as_it_is_needs_no_other_tokenizer() {
    let text_alone = json!({
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {},
    });
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false});
    let both = json!({"type": "Sequence", "processors": [bytes, text_alone]});
    for processor in [text_alone, both] {
        let bpe =
            open("tokenizer.json", &with(small_bpe(), "/post_processor", processor.clone()).to_string());
        assert!(matches!(bpe, Ok(Tokenizer::Bpe(_))), "{processor}");
        let file = with(saved(&characters()), "/post_processor", processor);
        assert!(matches!(open("tokenizer.json", &file.to_string()), Ok(Tokenizer::Char(_))));
    }
}

#[test]
fn what_no_language_model_can_use_is_refused_with_the_reason() {
    let added = json!([{
        "id": 9, "content": "<sep>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true
    }]);
    let prefix = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
    let other = with(with(small_bpe(), "/pre_tokenizer", prefix.clone()), "/decoder", prefix);
    let bomb = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(10_000)});
    let cases = [
        (with(small_bpe(), "/model/dropout", json!(0.1)), "other ids every time"),
        (
            with(
                other.clone(),
                "/decoder",
                json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": true}),
            ),
            "can't show text token by token",
        ),
        (
            with(other.clone(), "/added_tokens", added),
            r#"the added token "<sep>" has id 9, but id 3 in the vocabulary"#,
        ),
        (
            with(
                other.clone(),
                "/post_processor",
                json!({
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "<cls>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {},
                }),
            ),
            r#"the post-processor's template uses "<cls>", which is not among its special_tokens"#,
        ),
        (
            with(other.clone(), "/normalizer", json!({"type": "Sequence", "normalizers": [bomb, bomb]})),
            "a million times longer",
        ),
        (
            with(
                other.clone(),
                "/normalizer",
                json!({"type": "Precompiled", "precompiled_charsmap": "////////"}),
            ),
            "the size of the normalizer's table is wrong",
        ),
        (
            with(other.clone(), "/model/vocab", json!({"a": 0, "b": 1_000_000, "ab": 2})),
            "id 1000000 in a vocabulary",
        ),
        (json!({"model": {"type": "Reverse"}}), "tokenizer.json: "),
    ];
    for (file, expected) in cases {
        let error = refusal(&file);
        assert!(error.contains(expected), "{error}");
    }
    assert!(matches!(open("tokenizer.json", &other.to_string()), Ok(Tokenizer::Pipeline(_))));
}

#[test]
fn a_broken_tokenizer_json_is_refused_with_the_entry() {
    let added = |id: u32, content: &str| json!([{"id": id, "content": content, "special": true}]);
    let cases = [
        (
            with(small_bpe(), "/model/merges", json!(["a c"])),
            r#"merge 0 ("a" with "c") needs "c", which is not a token"#,
        ),
        (with(small_bpe(), "/model/merges", json!(["b a"])), r#"needs "ba", which is not a token"#),
        (
            with(small_bpe(), "/model/merges", json!(["a b", "a b"])),
            "merge 1 (\"a\" with \"b\") appears twice",
        ),
        (with(small_bpe(), "/model/merges", json!(["ab"])), r#""ab" is not a merge of two tokens"#),
        (with(small_bpe(), "/model/merges", json!([["a"]])), "a merge needs two tokens"),
        (
            with(small_bpe(), "/model/vocab", json!({"a": 0, "b c": 1})),
            r#"the token "b c" (id 1) is not spelled"#,
        ),
        (with(small_bpe(), "/model/vocab", json!({"a": 0, "b": 7})), "no token has id 1"),
        (with(small_bpe(), "/added_tokens", added(0, "<sep>")), r#""a" and "<sep>" both have id 0"#),
        (
            with(small_bpe(), "/added_tokens", added(9, "ab")),
            r#"the added token "ab" has id 9, but id 2 in the vocabulary"#,
        ),
        (
            with(saved(&characters()), "/added_tokens", json!([])),
            r#"the token "<pad>" (id 0) is not one character"#,
        ),
        (json!({"model": {"type": "BPE"}}), "the model has no vocabulary"),
    ];
    for (file, expected) in cases {
        let error = refusal(&file);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn added_tokens_may_follow_the_vocabulary() {
    let file = with(small_bpe(), "/added_tokens", json!([{"id": 3, "content": "<sep>", "special": true}]));
    let tokenizer = open("tokenizer.json", &file.to_string()).unwrap();
    assert_eq!(tokenizer.encode_with_special("a<sep>").unwrap(), [0, 3]);
    assert_eq!(tokenizer.special_id("<sep>"), Some(3));
}

#[test]
fn a_byte_without_a_token_is_an_error_with_its_position() {
    let tokenizer = open("tokenizer.json", &small_bpe().to_string()).unwrap();
    let error = tokenizer.encode("ab c").unwrap_err().to_string();
    assert_eq!(error, "byte 2 of the text is 0x20, for which the vocabulary has no token");
}

#[test]
fn a_token_that_no_merge_makes_is_never_used() {
    let file = with(small_bpe(), "/model/merges", json!([]));
    let tokenizer = open("tokenizer.json", &file.to_string()).unwrap();
    assert_eq!(tokenizer.encode("ab").unwrap(), [0, 1]);
}

#[test]
fn vocab_json_with_merges_txt_opens_and_knows_its_special_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let vocab = folder.path().join("vocab.json");
    std::fs::write(&vocab, r#"{"a": 0, "Ġ": 1, "Ġa": 2, "<|endoftext|>": 3}"#).unwrap();
    std::fs::write(folder.path().join("merges.txt"), "#version: 0.2\r\nĠ a\r\n").unwrap();
    for path in [vocab.as_path(), folder.path()] {
        let tokenizer = Tokenizer::open(path).unwrap();
        assert_eq!(tokenizer.encode_with_special("a a<|endoftext|>").unwrap(), [0, 2, 3]);
    }
    std::fs::write(folder.path().join("merges.txt"), "Ġ a\nĠa\n").unwrap();
    let error = Tokenizer::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(r#"line 2 is not a merge: "Ġa""#), "{error}");
}

#[test]
fn equal_keys_anywhere_in_a_tokenizer_json_are_refused() {
    let file = small_bpe().to_string();
    for (from, to, expected) in [
        (r#""a":0"#, r#""a":0,"a":0"#, r#"the key "a" appears twice"#),
        (r#""type":"BPE""#, r#""type":"BPE","type":"BPE""#, "duplicate field `type`"),
        (r#""type":"ByteLevel""#, r#""type":"ByteLevel","type":"Metaspace""#, "duplicate field `type`"),
    ] {
        assert!(file.contains(from), "{file}");
        let error = open("tokenizer.json", &file.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_hostile_number_of_special_tokens_is_refused() {
    let added: Vec<Value> = (0..20_000).map(|n| json!({"id": n + 3, "content": format!("<{n}>")})).collect();
    let error = refusal(&with(small_bpe(), "/added_tokens", added.into()));
    assert!(error.contains("more than 10000 special tokens"), "{error}");
}
