//! `minigpt tokenizer` as a person or a program runs it.

use crate::support::{Done, Place, minigpt, names, text};
use serde_json::json;
use std::fs;
use std::path::Path;

const TEXT: &str = "one two three one two one\n你好，世界。你好！\n";

fn tokenizer(args: &[&str], input: impl Into<Vec<u8>>) -> Done {
    minigpt(&[&["tokenizer"], args].concat()).stdin(input).run()
}

#[test]
fn encode_prints_ids_and_shows_the_pieces_beside_them() {
    let done = tokenizer(&["encode"], "Hello, world!").success();
    assert_eq!(done.stdout(), "15496 11 995 0\n");
    assert_eq!(done.stderr(), "\nHello│,│·world│!\n4 tokens for 13 bytes, 3.25 per token\n");
}

#[test]
fn encode_as_json_is_one_value_and_nothing_else() {
    let done = tokenizer(&["encode", "--json", "--tokenizer", "gpt2"], "Hello 你").success();
    assert_eq!(
        done.json(),
        json!({"ids": [15496, 220, 19526, 254], "tokens": ["Hello", " ", "\\xE4\\xBD", "\\xA0"], "count": 4})
    );
    assert_eq!(done.stderr(), "");
}

#[test]
fn special_tokens_are_text_unless_asked_for() {
    let plain = tokenizer(&["encode", "--text", "<|endoftext|>"], "").success();
    assert_eq!(plain.stdout(), "27 91 437 1659 5239 91 29\n");
    let special = tokenizer(&["encode", "--special", "--text", "<|endoftext|>"], "").success();
    assert_eq!(special.stdout(), "50256\n");
}

#[test]
fn what_encode_prints_decode_reads() {
    let text = "It's\r\n  café 你好 🙂\u{0}\n";
    for args in [&["encode"][..], &["encode", "--json"]] {
        let encoded = tokenizer(args, text).success();
        assert_eq!(tokenizer(&["decode"], encoded.stdout()).success().stdout(), text);
        assert_eq!(
            tokenizer(&["decode", "--json"], encoded.stdout()).success().json(),
            json!({"text": text})
        );
    }
}

#[test]
fn nothing_encodes_to_nothing_and_back() {
    assert_eq!(tokenizer(&["encode"], "").success().stdout(), "\n");
    assert_eq!(tokenizer(&["encode", "--json"], "").success().json()["ids"], json!([]));
    assert_eq!(tokenizer(&["decode"], "").success().stdout(), "");
}

#[test]
fn decode_says_what_was_incomplete() {
    let done = tokenizer(&["decode", "--ids", "64,19526"], "").success();
    assert_eq!(done.stdout(), "a\u{FFFD}");
    assert!(done.stderr().contains("the text ends inside a character, after the bytes E4 BD"));
    let done = tokenizer(&["decode", "--json"], "[64, 19526]").success();
    assert_eq!(done.json(), json!({"text": "a\u{FFFD}", "incomplete": [0xE4, 0xBD]}));
}

#[test]
fn bad_input_is_an_error_that_says_where() {
    let cases: [(&[&str], &[u8], &str); 6] = [
        (&["encode"], b"ab\xFFc", "error: standard input is not UTF-8 text: byte 2 is 0xFF\n"),
        (&["encode"], b"ab\xE4\xBD", "error: standard input is not UTF-8 text: byte 2 is 0xE4\n"),
        (&["decode"], b"1 x", "error: \"x\" at position 1 is not an id\n"),
        (
            &["decode"],
            b"1 50257",
            "error: id 50257 at position 1 is outside the vocabulary of 50257 tokens\n",
        ),
        (
            &["encode", "--tokenizer", "/no/such/file"],
            b"",
            "error: could not read /no/such/file: No such file",
        ),
        (
            &["encode", "--model", "/no/such"],
            b"",
            "error: the model's tokenizer could not be opened: /no/such: no such file",
        ),
    ];
    for (args, input, expected) in cases {
        let done = tokenizer(args, input).code(1);
        assert!(done.stderr().starts_with(expected), "{args:?} gave: {}", done.stderr());
        assert_eq!(done.stdout(), "");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let cases: [(&[&str], &str); 6] = [
        (&["train", "--input", "-", "--out", "x"], "BPE needs --vocab-size"),
        (&["train", "--input", "-", "--out", "x", "--vocab-size", "10"], "need at least 256"),
        (
            &["train", "--input", "-", "--out", "x", "--kind", "char", "--vocab-size", "9"],
            "does not go with --kind char",
        ),
        (
            &["train", "--input", "-", "--out", "x", "--kind", "char", "--special", "a"],
            "at least two characters",
        ),
        (&["encode", "--model", "x", "--tokenizer", "gpt2"], "cannot be used with"),
        (&["encode", "--nonsense"], "unexpected argument '--nonsense'"),
    ];
    for (args, expected) in cases {
        let done = tokenizer(args, "text").code(2);
        assert!(done.stderr().contains(expected), "{args:?} gave: {}", done.stderr());
    }
    assert!(!Path::new("x").exists());
}

#[test]
fn a_bpe_is_trained_and_used() {
    let place = Place::new();
    let out = place.path("tokenizer");
    let out = text(&out);
    let train = [
        "train",
        "--input",
        "-",
        "--vocab-size",
        "270",
        "--special",
        "<pad>",
        "--special",
        "<sep>",
        "--out",
        out,
    ];
    let done = tokenizer(&[&train[..], &["--json"]].concat(), TEXT).success();
    let made = done.json();
    assert_eq!((&made["vocab_size"], &made["kind"]), (&json!(270), &json!("bpe")));
    assert_eq!(names(Path::new(out)), ["tokenizer.json", "tokenizer_config.json"]);
    assert_eq!(place.names(""), ["tokenizer"]);

    for choice in ["--tokenizer", "--model"] {
        let done = tokenizer(&["encode", choice, out, "--special", "--json"], " two<sep>你好").success();
        let ids = done.json()["ids"].clone();
        assert!(ids.as_array().unwrap().contains(&json!(1)), "{ids}");
        let done = tokenizer(&["decode", choice, out], ids.to_string()).success();
        assert_eq!(done.stdout(), " two<sep>你好");
    }
}

#[test]
fn training_twice_gives_the_same_files() {
    let place = Place::new();
    let files = ["a", "b"].map(|name| {
        let out = place.path(name);
        let args = ["train", "--input", "-", "--vocab-size", "300", "--out", text(&out)];
        tokenizer(&args, TEXT.repeat(5)).success();
        fs::read(out.join("tokenizer.json")).unwrap()
    });
    assert_eq!(files[0], files[1]);
}

#[test]
fn a_character_vocabulary_is_made_from_a_folder_and_its_files_agree() {
    let place = Place::new();
    let texts = place.path("texts");
    fs::create_dir(&texts).unwrap();
    fs::write(texts.join("a.txt"), "ba").unwrap();
    fs::write(texts.join("b.txt"), "\u{FEFF}你\r\n").unwrap();
    let out = place.path("out");
    let args = ["train", "--kind", "char", "--special", "<pad>", "--special", "<unk>", "--special", "<sep>"];
    let paths = ["--input", text(&texts), "--out", text(&out)];
    let done = tokenizer(&[&args[..], &paths].concat(), "").success();
    assert!(done.stdout().starts_with("Trained a char tokenizer of 7 tokens: "), "{}", done.stdout());
    for path in [out.join("tokenizer.json"), out.join("vocabulary.json"), out] {
        let done = tokenizer(&["encode", "--tokenizer", text(&path)], "\nab你好").success();
        assert_eq!(done.stdout(), "3 4 5 6 1\n");
    }
}

#[test]
fn an_unknown_character_is_named_where_there_is_no_unk() {
    let place = Place::new();
    let out = place.path("out");
    let out = text(&out);
    tokenizer(&["train", "--kind", "char", "--input", "-", "--out", out], "abc").success();
    let done = tokenizer(&["encode", "--tokenizer", out], "ab你").code(1);
    assert!(done.stderr().contains("character 3 of the text is '你' (U+4F60)"), "{}", done.stderr());
}

#[test]
fn questions_and_answers_are_learnt_from_and_bad_lines_reported() {
    let place = Place::new();
    let input = place.path("qa.jsonl");
    fs::write(&input, "{\"question\": \"ab\", \"answer\": \"c\"}\nnonsense\n").unwrap();
    let out = place.path("out");
    let paths = ["--input", text(&input), "--out", text(&out)];
    let done = tokenizer(&[&["train", "--kind", "char", "--json"][..], &paths].concat(), "").success();
    // <pad>, <unk> and <sep> come first, as training asks for them.
    assert_eq!(done.json()["vocab_size"], 6);
    assert!(done.stderr().contains("line 2: "), "{}", done.stderr());
}

#[test]
fn a_folder_in_the_way_is_replaced_only_when_asked() {
    let place = Place::new();
    let out = place.path("out");
    let path = text(&out);
    let args = ["train", "--kind", "char", "--input", "-", "--out", path];
    tokenizer(&args, "abc").success();
    let done = tokenizer(&args, "abcd").code(1);
    assert!(done.stderr().contains("already exists"), "{}", done.stderr());
    tokenizer(&[&args[..], &["--force"]].concat(), "abcd").success();
    assert_eq!(tokenizer(&["encode", "--tokenizer", path], "d").success().stdout(), "3\n");

    fs::write(out.join("mine.txt"), "precious").unwrap();
    tokenizer(&[&args[..], &["--force"]].concat(), "abc").code(1);
    assert!(out.join("mine.txt").exists());
}

#[test]
fn a_failed_training_leaves_nothing_behind() {
    let place = Place::new();
    let out = place.path("out");
    let args = ["train", "--vocab-size", "300", "--input", "-", "--out", text(&out)];
    for input in [&b""[..], b"ab\xFF", b"\xEF\xBB\xBF"] {
        tokenizer(&args, input).code(1);
        assert!(place.names("").is_empty());
    }
}

#[test]
fn fewer_tokens_than_asked_for_is_said() {
    let place = Place::new();
    let out = place.path("out");
    let args = ["train", "--vocab-size", "1000", "--input", "-", "--out", text(&out)];
    let done = tokenizer(&args, "abab").success();
    assert!(done.stderr().contains("pairs for 258 of the 1000 tokens requested"), "{}", done.stderr());
}

#[test]
fn ten_megabytes_without_a_space_are_encoded_and_learnt_from() {
    let long = "你好世界abc".repeat(700_000);
    let encoded = tokenizer(&["encode"], long.clone()).success();
    let decoded = tokenizer(&["decode"], encoded.stdout()).success();
    assert!(decoded.stdout() == long, "the text did not come back");
    let place = Place::new();
    let out = place.path("out");
    tokenizer(&["train", "--vocab-size", "300", "--input", "-", "--out", text(&out)], long).success();
}
