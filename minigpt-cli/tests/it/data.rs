//! `minigpt data` as a person or a program runs it: what it writes, what it says, and what it does with bad input.

use crate::support::{Done, Place, minigpt, serve};
use serde_json::json;
use std::fs;
use std::path::Path;

fn data(args: &[&str], input: impl Into<Vec<u8>>) -> Done {
    minigpt(&[&["data"], args].concat()).stdin(input).run()
}

fn ids(path: &Path) -> Vec<u16> {
    fs::read(path).unwrap().chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

mod prepare {
    use super::*;

    fn prepare(input: &str, out: &str, more: &[&str]) -> Done {
        data(&[&["prepare", "--input", input, "--out", out], more].concat(), "")
    }

    #[test]
    fn text_becomes_what_nanogpt_makes_of_it() {
        let place = Place::new();
        let input = place.write("in.txt", "hello there\n");
        let done = prepare(&input, &place.text("out"), &["--json"]).success();
        // chars = sorted(set(data)); data[:int(n*0.9)] is "hello ther".
        assert_eq!(ids(&place.path("out/train.bin")), [3, 2, 4, 4, 5, 1, 7, 3, 2, 6]);
        assert_eq!(ids(&place.path("out/val.bin")), [2, 0]);
        assert_eq!(
            place.names("out"),
            ["meta.json", "tokenizer.json", "tokenizer_config.json", "train.bin", "val.bin"]
        );
        let meta = place.read_json("out/meta.json");
        assert_eq!(meta["dtype"], "u16");
        assert_eq!(meta["train"], json!({"tokens": 10, "characters": 10}));
        assert_eq!(meta["tokenizer"]["kind"], "char");
        assert_eq!(meta["tokenizer"]["vocab_size"], 8);
        let mut said = done.json();
        assert_eq!(said["out"], place.text("out"));
        said.as_object_mut().unwrap().remove("out");
        assert_eq!(said, meta);
    }

    #[test]
    fn gpt2_gives_gpt2s_ids_from_a_pipe_too() {
        let place = Place::new();
        let out = place.text("out");
        let args = ["prepare", "--input", "-", "--out", &out, "--tokenizer", "gpt2", "--val-fraction", "0.5"];
        let done = data(&args, "Hello, worldHello, world").success();
        assert_eq!(ids(&place.path("out/train.bin")), [15496, 11, 995]);
        assert_eq!(ids(&place.path("out/val.bin")), [15496, 11, 995]);
        assert!(done.stdout().contains("standard input"), "{}", done.stdout());
        assert!(done.stdout().contains("bpe, 50,257 tokens"));
        let stats = data(&["stats", &out, "--json"], "").success();
        assert_eq!(stats.json()["largest_id"], 15496);
    }

    #[test]
    fn a_folder_is_read_in_order_and_what_is_left_out_is_said() {
        let place = Place::new();
        place.write("in/b.txt", "b");
        place.write("in/a.md", "a");
        place.write("in/photo.jpg", "x");
        let done = prepare(&place.text("in"), &place.text("out"), &["--val-fraction", "0"]).success();
        assert_eq!(ids(&place.path("out/train.bin")), [1, 0, 2]);
        assert!(ids(&place.path("out/val.bin")).is_empty());
        assert!(done.stdout().contains("2 files, 1 other file left out"), "{}", done.stdout());
    }

    #[test]
    fn marks_of_other_systems_are_removed_and_reported() {
        let place = Place::new();
        let input = place.write("in.txt", "\u{feff}a\r\nb\0\r\n");
        let done = prepare(&input, &place.text("out"), &["--val-fraction", "0"]).success();
        assert_eq!(ids(&place.path("out/train.bin")), [1, 0, 2, 0]);
        let said = done.stdout();
        assert!(
            said.contains("1 byte order mark dropped, 1 NUL character dropped, 2 line ends changed to \\n"),
            "{said}"
        );
    }

    #[test]
    fn a_limit_counts_characters_before_the_split() {
        let place = Place::new();
        let input = place.write("in.txt", "中文".repeat(100));
        prepare(&input, &place.text("out"), &["--limit", "20"]).success();
        assert_eq!((ids(&place.path("out/train.bin")).len(), ids(&place.path("out/val.bin")).len()), (18, 2));
    }

    #[test]
    fn ten_megabytes_without_a_line_end_are_no_trouble() {
        let place = Place::new();
        let input = place.write("in.txt", "中文字a".repeat(1 << 20));
        prepare(&input, &place.text("out"), &[]).success();
        assert_eq!(ids(&place.path("out/train.bin")).len(), (4 << 20) * 9 / 10);
        prepare(&input, &place.text("bpe"), &["--tokenizer", "gpt2"]).success();
    }

    /// Whatever is wrong, nothing is left behind.
    fn refused(place: &Place, input: &str, more: &[&str], expected: &str) {
        let before = place.names("");
        let done = prepare(input, &place.text("out"), more).code(1);
        assert_eq!(done.stdout(), "");
        let error = done.stderr();
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("error: ") && !error.contains("panicked"), "{error}");
        assert_eq!(place.names(""), before);
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_with_the_place() {
        let place = Place::new();
        let input = place.write("latin1.txt", b"caf\xe9\n");
        refused(&place, &input, &[], "not UTF-8 text: 0xe9 at byte 3 (line 1)");
        let input = place.write("cut.txt", &"中".as_bytes()[..2]);
        refused(&place, &input, &[], "the file ends inside a character at byte 0");
        // A character whose bytes lie on both sides of a buffer's edge, and then a byte that is wrong.
        let edge = ["a".repeat((1 << 18) - 1).as_bytes(), "中".as_bytes(), b"\x80"].concat();
        let input = place.write("edge.txt", &edge);
        refused(&place, &input, &[], &format!("0x80 at byte {}", (1 << 18) + 2));
        let good = place.write("good.txt", &edge[..edge.len() - 1]);
        prepare(&good, &place.text("fine"), &[]).success();
    }

    #[test]
    fn nothing_to_read_is_refused() {
        let place = Place::new();
        let input = place.write("empty.txt", "");
        refused(&place, &input, &[], "has no text in it");
        refused(&place, "-", &[], "standard input has no text in it");
        refused(&place, &place.text("missing.txt"), &[], "could not read");
        fs::create_dir(place.path("folder")).unwrap();
        refused(&place, &place.text("folder"), &[], "has no text files");
        let input = place.write("one.txt", "x");
        refused(&place, &input, &["--val-fraction", "0.9"], "the training part of");
    }

    #[test]
    fn question_answer_lines_are_sent_to_training_as_they_are() {
        let place = Place::new();
        let input = place.write("qa.jsonl", "{}");
        refused(&place, &input, &[], "train on it directly");
    }

    #[test]
    fn a_vocabulary_that_does_not_fit_is_refused() {
        let place = Place::new();
        let input = place.write("in.txt", "abc");
        let small = place.write("small.json", r#"{"word2id":{"a":0,"b":1},"id2word":{"0":"a","1":"b"}}"#);
        refused(&place, &input, &["--tokenizer", &small], "character 3 of the text is 'c'");
        let gaps = place.write("gaps.json", r#"{"word2id":{"a":0,"b":2},"id2word":{"0":"a","2":"b"}}"#);
        refused(&place, &input, &["--tokenizer", &gaps], "gaps.json");
        let twice = place.write("twice.json", r#"{"word2id":{"a":0,"b":0},"id2word":{"0":"a"}}"#);
        refused(&place, &input, &["--tokenizer", &twice], "twice.json");
        let other = place.write("other.json", r#"{"version":"1.0","model":{"type":"WordPiece","vocab":{}}}"#);
        refused(&place, &input, &["--tokenizer", &other], "other.json");
        refused(&place, &input, &["--tokenizer", &place.text("none.json")], "none.json");
    }

    #[test]
    fn what_is_in_the_way_stays_unless_it_is_ours_and_force_is_given() {
        let place = Place::new();
        let input = place.write("in.txt", "abcdefghij");
        prepare(&input, &place.text("out"), &[]).success();
        let done = prepare(&input, &place.text("out"), &["--limit", "5"]).code(1);
        assert!(done.stderr().contains("pass --force to replace it"), "{}", done.stderr());
        assert_eq!(ids(&place.path("out/train.bin")).len(), 9);
        prepare(&input, &place.text("out"), &["--limit", "5", "--force"]).success();
        assert_eq!(ids(&place.path("out/train.bin")).len(), 4);
        place.write("out/notes.txt", "mine");
        let done = prepare(&input, &place.text("out"), &["--force"]).code(1);
        assert!(
            done.stderr().contains("\"notes.txt\", which this program did not write"),
            "{}",
            done.stderr()
        );
        // A file where the folder should go, and one where its parent should be.
        for out in ["in.txt", "in.txt/out"] {
            prepare(&input, &place.text(out), &["--force"]).code(1);
        }
        assert_eq!(fs::read_to_string(&input).unwrap(), "abcdefghij");
        assert_eq!(place.names(""), ["in.txt", "out"]);
    }

    #[test]
    fn folders_that_do_not_fit_their_description_are_refused() {
        let place = Place::new();
        let input = place.write("in.txt", "abcdefghij");
        let out = place.text("out");
        prepare(&input, &out, &[]).success();
        let stats = |expected: &str| {
            let done = data(&["stats", &out], "").code(1);
            assert!(done.stderr().contains(expected), "{}", done.stderr());
        };
        place.write("out/train.bin", [0; 5]);
        stats("5 bytes are not a multiple of 2");
        place.write("out/train.bin", [0; 6]);
        stats("3 tokens, but meta.json says 9");
        let nine: Vec<u8> = (0..9_u16).flat_map(|id| (id * 40).to_le_bytes()).collect();
        place.write("out/train.bin", nine);
        stats("token 1 is 40, but the vocabulary has 10 entries");
        place.write("out/meta.json", "{\"format\": 1}");
        stats("not a valid description");
        // Without a description it is a folder as nanoGPT makes them.
        fs::remove_file(place.path("out/meta.json")).unwrap();
        let done = data(&["stats", &out, "--json"], "").success();
        assert_eq!(done.json()["largest_id"], 320);
    }
}

mod split {
    use super::*;

    fn lines(count: usize) -> String {
        (0..count).map(|i| format!("{{\"question\":\"q{i}\",\"answer\":\"a{i}\"}}\n")).collect()
    }

    #[test]
    fn every_line_is_in_exactly_one_part_as_it_was() {
        let place = Place::new();
        let text = format!("{}bad\r\n\r\n{{\"question\": 1, \"answer\": \"\"}}\nlast without end", lines(96));
        let input = place.write("in.jsonl", &text);
        let out = place.text("out");
        let args = ["split", &input, "--ratio", "0.8", "--seed", "7", "--out", &out, "--json"];
        let done = data(&args, "").success();
        let said = done.json();
        assert_eq!(
            (&said["lines"], &said["train_lines"], &said["val_lines"]),
            (&json!(100), &json!(76), &json!(20))
        );
        assert_eq!((&said["bad"]["total"], &said["bad"]["blank"]), (&json!(3), &json!(1)));
        assert_eq!(
            said["bad"]["first"][0],
            json!({"line": 97, "reason": "not JSON: expected value (column 1)"})
        );
        assert!(done.stderr().contains("line 99: \"question\" is the number 1"), "{}", done.stderr());
        let read = |name: &str| fs::read_to_string(place.path("out").join(name)).unwrap();
        let (train, val) = (read("train.jsonl"), read("val.jsonl"));
        let mut together: Vec<&str> = train.split_inclusive('\n').chain(val.split_inclusive('\n')).collect();
        let good = lines(96);
        let mut whole: Vec<&str> = good.split_inclusive('\n').collect();
        assert_ne!(together, whole, "the order was kept");
        together.sort_unstable();
        whole.sort_unstable();
        assert_eq!(together, whole);

        // The same seed again, from a pipe: the same parts.
        let again = place.text("again");
        data(&["split", "-", "--ratio", "0.8", "--seed", "7", "--out", &again], text.as_str()).success();
        assert_eq!(fs::read_to_string(place.path("again/train.jsonl")).unwrap(), train);
        let other = place.text("other");
        data(&["split", &input, "--ratio", "0.8", "--seed", "8", "--out", &other], "").success();
        assert_ne!(fs::read_to_string(place.path("other/train.jsonl")).unwrap(), train);
    }

    #[test]
    fn a_split_is_not_overwritten_by_accident_and_leaves_nothing_half_done() {
        let place = Place::new();
        let input = place.write("in.jsonl", lines(10));
        let out = place.text("out");
        let done = data(&["split", &input, "--out", &out], "").success();
        let parts = format!(
            "  lines  10
  train   9  {out}/train.jsonl
  val     1  {out}/val.jsonl
"
        );
        assert_eq!(done.stdout(), parts);
        data(&["split", &input, "--out", &out], "").code(1);
        data(&["split", &input, "--out", &out, "--limit", "5", "--force"], "").success();
        assert_eq!(fs::read_to_string(place.path("out/train.jsonl")).unwrap().lines().count(), 4);
        let empty = place.write("empty.jsonl", "");
        let done = data(&["split", &empty, "--out", &place.text("none")], "").code(1);
        assert!(done.stderr().contains("has no usable line"));
        assert_eq!(place.names(""), ["empty.jsonl", "in.jsonl", "out"]);
    }

    #[test]
    fn a_ratio_that_is_none_is_wrong_usage() {
        let place = Place::new();
        let input = place.write("in.jsonl", lines(10));
        let rule = "expected a number from 0 to 1";
        for (ratio, part) in [("1.5", rule), ("-0.1", rule), ("x", rule), ("NaN", rule)] {
            let ratio = format!("--ratio={ratio}");
            let done = data(&["split", &input, &ratio, "--out", &place.text("out")], "").code(2);
            assert!(done.stderr().contains(part), "{}", done.stderr());
        }
    }
}

mod stats {
    use super::*;

    #[test]
    fn question_answer_lines_are_measured_and_bad_ones_reported() {
        let place = Place::new();
        let good: String = (1..=100)
            .map(|n| format!("{{\"question\":\"{}\",\"answer\":\"是\"}}\n", "问".repeat(n)))
            .collect();
        let talk = r#"{"messages":[{"role":"user","content":"一"},{"role":"assistant","content":"二"},{"role":"user","content":"三"},{"role":"assistant","content":"四"}]}"#;
        let bad = "oops\n\n{\"question\":\"a\",\"question\":\"b\",\"answer\":\"c\"}\n{\"question\":\"a\"}\n";
        let input = place
            .write("qa.jsonl", [good.as_bytes(), talk.as_bytes(), b"\n", bad.as_bytes(), b"\xff\n"].concat());
        let svg = place.text("lengths.svg");
        let done = data(&["stats", &input, "--max-length", "50", "--svg", &svg, "--json"], "").success();
        let said = done.json();
        assert_eq!(
            (&said["kind"], &said["examples"], &said["conversations"]),
            (&json!("qa"), &json!(101), &json!(1))
        );
        assert_eq!((&said["bad"]["total"], &said["bad"]["blank"]), (&json!(4), &json!(1)));
        let reasons: Vec<(u64, &str)> = said["bad"]["first"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bad| (bad["line"].as_u64().unwrap(), bad["reason"].as_str().unwrap()))
            .collect();
        assert_eq!(reasons[0], (102, "not JSON: expected value (column 1)"));
        assert_eq!(reasons[1].0, 104);
        assert!(reasons[1].1.contains("has the field \"question\" twice"));
        assert_eq!(reasons[2], (105, "missing \"answer\""));
        assert_eq!(reasons[3], (106, "not UTF-8: 0xff at byte 0"));
        // Lengths are 4..=103 and 8: 96 of 101 are at most 98 long.
        assert_eq!(said["lengths"]["max"], 103);
        assert_eq!(said["suggested_max_length"], 98);
        assert_eq!(said["cut"], json!({"max_length": 50, "examples": 53, "tokens": 1431}));
        assert_eq!(said["tokenizer"]["vocab_size"], 3 + 6);
        let bars = said["histogram"]["bars"].as_array().unwrap();
        assert_eq!(bars.iter().map(|bar| bar["count"].as_u64().unwrap()).sum::<u64>(), 101);
        let svg = fs::read_to_string(svg).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("max_length 50"));

        let done = data(&["stats", &input], "").success();
        let said = done.stdout();
        assert!(said.contains("suggested max_length 98: 95.0 % whole, 5 examples cut"), "{said}");
        assert!(said.contains("█"));
        assert!(done.stderr().contains("4 lines can't be used"), "{}", done.stderr());
        let done = data(&["stats", &input, "--limit", "10", "--json"], "").success();
        assert_eq!(done.json()["examples"], 10);
    }

    #[test]
    fn no_usable_line_is_an_error() {
        let place = Place::new();
        for (text, expected) in
            [("", "0 bad, 0 blank"), ("7\n{}\n", "2 bad, 0 blank; line 1: "), ("\n \n", "0 bad, 2 blank")]
        {
            let input = place.write("qa.jsonl", text);
            let done = data(&["stats", &input], "").code(1);
            assert!(done.stderr().contains("has no usable line") && done.stderr().contains(expected));
            assert_eq!(done.stdout(), "");
        }
    }

    #[test]
    fn a_line_of_ten_megabytes_is_measured() {
        let place = Place::new();
        let long = "字".repeat(10 << 20 >> 1);
        let input = place.write("qa.jsonl", format!("{{\"question\":\"{long}\",\"answer\":\"是\"}}"));
        let done = data(&["stats", &input, "--json"], "").success();
        assert_eq!(done.json()["lengths"]["max"], (10 << 20 >> 1) + 3);
        let out = place.text("out");
        data(&["split", &input, "--out", &out, "--ratio", "1"], "").success();
        let (written, read) = (fs::read(place.path("out/train.jsonl")).unwrap(), fs::read(&input).unwrap());
        assert!(written == [&read[..], b"\n"].concat(), "the line has changed");
    }

    #[test]
    fn a_given_vocabulary_says_what_it_lacks() {
        let place = Place::new();
        let words = r#"{"word2id":{"<pad>":0,"<unk>":1,"<sep>":2,"a":3},"id2word":{"0":"<pad>","1":"<unk>","2":"<sep>","3":"a"}}"#;
        let vocabulary = place.write("vocab.json", words);
        let input = place.write("qa.jsonl", "{\"question\":\"ab\",\"answer\":\"bab\"}\n");
        let done = data(&["stats", &input, "--tokenizer", &vocabulary, "--json"], "").success();
        assert_eq!(done.json()["unknown"], 3);
        let done = data(&["stats", &input, "--tokenizer", &vocabulary], "").success();
        assert!(done.stdout().contains("3 tokens are <unk>"));
    }

    #[test]
    fn text_is_measured_too() {
        let place = Place::new();
        let input = place.write("in.txt", "to be\r\nor not to be\n");
        let done = data(&["stats", &input, "--json"], "").success();
        let said = done.json();
        assert_eq!(
            (&said["kind"], &said["characters"], &said["tokens"]),
            (&json!("text"), &json!(19), &json!(19))
        );
        assert_eq!(said["line_characters"]["max"], 12);
        assert_eq!(said["cleaned"]["line_ends"], 1);
        let done = data(&["stats", "-", "--tokenizer", "gpt2"], "to be or not to be").success();
        assert!(done.stdout().contains("6, 3.00 bytes each"), "{}", done.stdout());
        let done = data(&["stats", &input, "--max-length", "9"], "").code(2);
        assert!(done.stderr().contains("block_size"));
        let done = data(&["stats", &input, "--svg", &place.text("no/such/place.svg")], "").code(1);
        assert!(done.stderr().contains("could not draw the lengths"));
        assert_eq!(done.stdout(), "");
    }
}

mod download {
    use super::*;

    /// Answers every request with the same bytes.
    fn serving(body: &'static [u8]) -> String {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        serve(move |_| [head.as_bytes(), body].concat())
    }

    #[test]
    fn a_set_is_fetched_and_its_hash_recorded() {
        let place = Place::new();
        let endpoint = serving(b"emma\nolivia\n");
        let out = place.text("data");
        let args = ["download", "names", "--out", &out, "--endpoint", &endpoint];
        let done = data(&[&args[..], &["--json"]].concat(), "").success();
        let said = done.json();
        assert_eq!(said["path"], place.text("data/names.txt"));
        assert_eq!(
            (&said["bytes"], &said["checked"], &said["fetched"]),
            (&json!(12), &json!("first"), &json!(true))
        );
        assert!(done.stderr().contains("names: 228 kB, MIT\nfetching 12 bytes from http://127.0.0.1"));
        assert_eq!(place.names("data"), ["names.txt", "names.txt.sha256"]);
        let done = data(&args, "").success();
        assert!(done.stdout().contains("nothing was fetched"), "{}", done.stdout());
    }

    #[test]
    fn what_is_not_the_file_is_refused() {
        let place = Place::new();
        let endpoint = serving(b"<html>Sign in to the hotel network</html>");
        let out = place.text("data");
        let done = data(&["download", "shakespeare", "--out", &out, "--endpoint", &endpoint], "").code(1);
        assert!(done.stderr().contains("has 41 bytes, not 1115394"), "{}", done.stderr());
        assert!(!place.path("data/shakespeare.txt").exists());
    }

    #[test]
    fn offline_it_fails_at_once_and_says_what_to_do() {
        let place = Place::new();
        let out = place.text("data");
        let args = ["download", "names", "--out", &out, "--endpoint", "http://127.0.0.1:1"];
        let done = data(&args, "").code(1);
        assert!(done.stderr().contains("is this machine online?"), "{}", done.stderr());
        assert!(done.stderr().contains("--endpoint URL"), "{}", done.stderr());
        assert_eq!(done.stdout(), "");
    }

    #[test]
    fn an_unknown_name_is_wrong_usage_and_the_known_ones_are_shown() {
        let done = data(&["download", "shakespear"], "").code(2);
        assert!(done.stderr().contains("shakespeare"), "{}", done.stderr());
    }
}

#[test]
fn the_built_in_set_is_used_by_its_name() {
    let done = data(&["stats", "builtin", "--json"], "").success();
    let said = done.json();
    assert_eq!(
        (&said["kind"], &said["unknown"], &said["bad"]["total"]),
        (&json!("qa"), &json!(0), &json!(0))
    );
    assert!(said["examples"].as_u64().unwrap() > 4000);
    let place = Place::new();
    let out = place.text("out");
    let done = data(&["prepare", "--input", "builtin", "--out", &out], "").code(1);
    assert!(done.stderr().contains("needs no preparing"), "{}", done.stderr());
    let done = data(&["split", "builtin", "--out", &out], "").code(1);
    assert!(done.stderr().contains("already split"), "{}", done.stderr());
}

#[test]
fn the_list_names_every_set_with_size_licence_and_check() {
    let done = data(&["list"], "").success();
    for name in [
        "`builtin`",
        "names",
        "shakespeare",
        "tinystories",
        "hongloumeng",
        "22.5 MB",
        "SHA-256",
        "public domain",
    ] {
        assert!(done.stdout().contains(name), "{name}");
    }
    let done = data(&["list", "--json"], "").success();
    let said = done.json();
    assert_eq!(said["builtin"]["name"], "builtin");
    assert!(said["builtin"]["held_out"].as_u64().unwrap() > 0);
    let shakespeare =
        said["public"].as_array().unwrap().iter().find(|set| set["name"] == "shakespeare").unwrap();
    assert_eq!(shakespeare["bytes"], 1_115_394);
    assert!(shakespeare["url"].as_str().unwrap().starts_with("https://"));
}
