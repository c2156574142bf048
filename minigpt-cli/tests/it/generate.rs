//! `minigpt generate` as a person types it.

use crate::support::{
    Done, Place, SPECIAL, answer, assert_contains, characters, failure, fixture, minigpt, small,
};
use minigpt_model::Config;
use serde_json::Value;

/// A small model that reads and writes a few characters.
struct Model(Place);

impl Model {
    fn new() -> Self {
        Self::with(&SPECIAL, "你好吗我很abc de\n", true)
    }

    /// One without a token that ends a text.
    fn endless() -> Self {
        Self::with(&[], "abcdef", true)
    }

    fn with(special: &[&str], text: &str, tie_word_embeddings: bool) -> Self {
        let (place, tokenizer) = (Place::new(), characters(special, text));
        let config = Config {
            block_size: BLOCK_SIZE,
            initializer_range: 0.5,
            tie_word_embeddings,
            ..small(tokenizer.vocab_size())
        };
        place.model("model", config, Some(&tokenizer));
        Self(place)
    }

    fn path(&self) -> String {
        self.0.text("model")
    }

    fn run(&self, args: &[&str], stdin: &[u8]) -> Done {
        minigpt(&[&["generate", "--model", &self.path()], args].concat()).stdin(stdin).run()
    }

    fn text(&self, args: &[&str]) -> String {
        self.run(args, b"").success().stdout().to_owned()
    }

    fn answer(&self, args: &[&str]) -> Value {
        answer(&[&["generate", "--model", &self.path()], args].concat())
    }
}

const BLOCK_SIZE: usize = 12;

/// The ids of the first text.
fn ids(answer: &Value) -> Vec<usize> {
    serde_json::from_value(answer["completions"][0]["ids"].clone()).unwrap()
}

#[test]
fn text_streams_behind_its_prompt_and_a_line_says_how_fast() {
    let done = Model::new().run(&["--prompt", "你好", "--max-new-tokens", "30"], b"").success();
    let text = done.stdout();
    assert!(text.starts_with("你好") && text.ends_with('\n'), "{text}");
    assert_contains(done.stderr(), &["tokens/s", "first after"]);
}

#[test]
fn the_json_holds_what_others_rely_on() {
    let model = Model::new();
    let answer = model.answer(&["--prompt", "你好", "--max-new-tokens", "9", "--num-samples", "2"]);
    assert_eq!(answer["prompt_ids"].as_array().unwrap().len(), 2);
    assert!(answer["tokens_per_second"].as_f64().unwrap() > 0.0);
    let completions = answer["completions"].as_array().unwrap();
    assert_eq!(completions.len(), 2);
    for completion in completions {
        let ids = completion["ids"].as_array().unwrap();
        let reason = completion["finish_reason"].as_str().unwrap();
        assert!(ids.len() <= 9 && (reason == "length") == (ids.len() == 9 && ids[8] != 2), "{completion}");
        assert!(completion["text"].is_string() && completion["logprob"].as_f64().unwrap() < 0.0);
    }
}

#[test]
fn the_same_seed_writes_the_same_text_and_greedy_needs_none() {
    let model = Model::new();
    let text = |more: &[&str]| model.text(&[&["--prompt", "abc", "--max-new-tokens", "40"], more].concat());
    assert_eq!(text(&["--seed", "5"]), text(&["--seed", "5"]));
    assert_ne!(text(&["--seed", "5"]), text(&["--seed", "6"]));
    assert_eq!(text(&["--temperature", "0", "--seed", "1"]), text(&["--style", "exact", "--seed", "2"]));
    assert_eq!(text(&["--top-k", "1"]), text(&["--temperature", "0"]));
}

#[test]
fn streamed_whole_and_piped_texts_are_the_same() {
    let model = Model::new();
    let options = ["--max-new-tokens", "20"];
    let streamed = model.text(&[&["--prompt", "你好"], &options[..]].concat());
    let whole = model.answer(&[&["--prompt", "你好"], &options[..]].concat());
    assert_eq!(streamed, format!("你好{}\n", whole["completions"][0]["text"].as_str().unwrap()));
    assert_eq!(model.run(&options, "你好".as_bytes()).success().stdout(), streamed);
}

#[test]
fn an_explanation_marks_what_was_chosen() {
    let text = Model::new().text(&["--prompt", "abc", "--max-new-tokens", "3", "--explain"]);
    assert!(text.contains("token 1, entropy") && text.contains("> ") && text.contains(" %"), "{text}");
}

/// The log-probability of each token after `prompt`, from the model's own logits.
fn log_probabilities(model: &Model, prompt: &[usize]) -> Vec<f64> {
    let ids: Vec<String> = prompt.iter().map(ToString::to_string).collect();
    let inspect = ["inspect", "--model", &model.path(), "--full", "--ids", &ids.join(",")].map(str::to_owned);
    let logits = answer(&inspect.each_ref().map(String::as_str))["logits"].clone();
    let logits: Vec<Vec<f64>> = serde_json::from_value(logits).unwrap();
    let last = logits.last().unwrap();
    let total = last.iter().map(|x| x.exp()).sum::<f64>().ln();
    last.iter().map(|x| x - total).collect()
}

/// Two tokens and as many beams as there are tokens: the search sees every text, so it must find the likeliest.
#[test]
fn beams_find_the_likeliest_of_all_texts_where_greedy_does_not() {
    // With a head of its own the model does not merely repeat its last token.
    let model = Model::with(&[], "abcdef", false);
    let mut greedy_was_wrong = 0;
    for prompt in 0..6 {
        let first = log_probabilities(&model, &[prompt]);
        let best = (0..6).flat_map(|a| {
            let second = log_probabilities(&model, &[prompt, a]);
            let first = first[a];
            second.into_iter().enumerate().map(move |(b, second)| (vec![a, b], first + second))
        });
        let best = best.max_by(|x, y| x.1.total_cmp(&y.1)).unwrap();
        let prompt = prompt.to_string();
        let write =
            |more: &[&str]| model.answer(&[&["--ids", &prompt, "--max-new-tokens", "2"], more].concat());
        let beams = write(&["--num-beams", "6"]);
        assert_eq!((ids(&beams), beams["completions"].as_array().unwrap().len()), (best.0, 1));
        let logprob = beams["completions"][0]["logprob"].as_f64().unwrap();
        assert!((logprob - best.1).abs() < 1e-4, "{logprob} is not {}", best.1);
        let greedy = write(&["--temperature", "0"]);
        assert!(greedy["completions"][0]["logprob"].as_f64().unwrap() <= logprob + 1e-6);
        greedy_was_wrong += usize::from(ids(&greedy) != ids(&beams));
    }
    assert!(greedy_was_wrong > 0, "greedy finds the same texts, so this says nothing about beams");
}

#[test]
fn ids_need_no_tokenizer() {
    let generate = ["generate", "--ids", "1,2,3", "--max-new-tokens", "4", "--model", &fixture("rope")];
    let answer = answer(&generate);
    assert_eq!(ids(&answer).len(), 4);
    assert_eq!(answer["completions"][0]["text"], Value::Null);
}

#[test]
fn a_full_context_slides_or_stops_as_asked() {
    let model = Model::endless();
    let long = ["--prompt", "abc", "--max-new-tokens", "50", "--seed", "3"];
    let stopped = model.answer(&[&long[..], &["--context", "stop"]].concat());
    // The last token is written but need not be read.
    assert_eq!(ids(&stopped).len(), BLOCK_SIZE + 1 - 3);
    assert_eq!(stopped["completions"][0]["finish_reason"], "length");
    let slid = model.answer(&long);
    assert_eq!(ids(&slid).len(), 50);
    assert_eq!(ids(&slid)[..ids(&stopped).len()], ids(&stopped));
}

#[test]
fn bad_input_is_refused_in_words() {
    let model = Model::new();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--prompt", ""], 1, "the prompt is empty"),
        (&["--ids", "99"], 1, "99"),
        (&["--prompt", "a", "--top-p", "0"], 1, "top_p"),
        (&["--prompt", "a", "--top-p", "1.5"], 1, "top_p"),
        (&["--prompt", "a", "--temperature=-1"], 1, "temperature"),
        (&["--prompt", "a", "--num-beams", "1000"], 1, "num_beams"),
        (&["--prompt", "a", "--ids", "1"], 2, "--ids"),
        (&["--prompt-file", "/no/such/file"], 1, "/no/such/file"),
    ];
    for (args, code, part) in cases {
        let error = failure(&[&["generate", "--model", &model.path()], args].concat(), code);
        assert_contains(&error, &[part]);
    }
    assert_contains(model.run(&[], b"ab\xff").code(1).stderr(), &["byte 2"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let model = Model::endless();
    let generate = ["generate", "--prompt", "abc", "--max-new-tokens", "20000", "--model", &model.path()];
    let mut child = minigpt(&generate).spawn();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !error.contains("panicked"), "{error}");
}
