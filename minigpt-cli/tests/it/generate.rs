//! `minigpt generate` as a person types it.

use crate::support::{
    Done, Place, SPECIAL, answer, assert_contains, characters, failure, fixture, minigpt, small,
};
use minigpt_model::Config;
use serde_json::{Value, json};

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
    let answer = model.answer(&["--raw", "--prompt", "你好", "--max-new-tokens", "9", "--num-samples", "2"]);
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
fn a_bare_prompt_is_wrapped_in_the_models_format_and_said_and_others_are_not() {
    let model = Model::new();
    let run = |args: &[&str]| {
        let done = model.run(&[args, &["--json", "--max-new-tokens", "3"]].concat(), b"").success();
        let answer = done.json();
        let first = if answer["results"].is_array() { answer["results"][0].clone() } else { answer };
        (first["prompt_ids"].clone(), done.stderr().to_owned())
    };
    let (asked, note) = run(&["-p", "ab"]);
    assert_contains(&note, &["the prompt is wrapped", "question <sep> answer <sep>", "--raw"]);
    for (args, bare) in [(["-p", "ab<sep>"], false), (["--raw", "-pab"], true), (["--ids", "10,11"], true)] {
        let (ids, note) = run(&args);
        assert!(!note.contains("wrapped"), "{args:?}: {note}");
        assert_eq!((ids == asked, ids.as_array().unwrap().len() == 2), (!bare, bare), "{args:?}: {ids}");
    }
    let prompts = model.0.write("prompts.txt", "ab\nab<sep>\n");
    for args in
        [&["--prompts", &prompts][..], &["-p", "ab", "--compare", "exact"], &["-p", "ab", "--explain"]]
    {
        let (ids, note) = run(args);
        assert_eq!((ids, note.matches("wrapped").count()), (asked.clone(), 1), "{args:?}: {note}");
    }
    // The line end of a shell is no part of a question.
    let piped = model.run(&["--json"], b"ab\n").success().json();
    assert_eq!(piped["prompt_ids"], asked);
    // A model of plain text is given plain text.
    let plain = Model::endless();
    let done = plain.run(&["-p", "ab", "--json"], b"").success();
    assert_eq!((done.json()["prompt_ids"].as_array().unwrap().len(), done.stderr()), (2, ""));
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
    let options = ["--raw", "--max-new-tokens", "20"];
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
    assert_eq!(ids(&stopped).len(), BLOCK_SIZE - 3, "prompt and answer fill the context");
    assert_eq!(stopped["completions"][0]["finish_reason"], "length");
    let slid = model.answer(&long);
    assert_eq!(ids(&slid).len(), 50);
    assert_eq!(ids(&slid)[..ids(&stopped).len()], ids(&stopped));
}

#[test]
fn a_cropped_context_sees_the_last_tokens_at_each_step() {
    let model = Model::with(&[], "abcdef", false);
    let write = |prompt: &[usize], more: &[&str]| {
        let prompt: Vec<String> = prompt.iter().map(ToString::to_string).collect();
        ids(&model.answer(&[&["--temperature", "0", "--ids", &prompt.join(",")], more].concat()))
    };
    let cropped = write(&[0, 1], &["--max-new-tokens", "30", "--context", "crop"]);
    let mut text = vec![0, 1];
    while text.len() < 32 {
        let view = &text[text.len().saturating_sub(BLOCK_SIZE)..];
        text.extend(write(view, &["--max-new-tokens", "1"]));
    }
    assert_eq!(cropped, text[2..]);
    assert_ne!(cropped, write(&[0, 1], &["--max-new-tokens", "30"]), "it slides as well");
}

/// The ids of the first text of each result.
fn results(answer: &Value) -> Vec<Vec<usize>> {
    answer["results"].as_array().unwrap().iter().map(ids).collect()
}

#[test]
fn several_prompts_are_written_as_if_each_were_alone() {
    let model = Model::new();
    let greedy = ["--temperature", "0", "--max-new-tokens", "6"];
    let write = |prompts: &[&str]| model.answer(&[prompts, &greedy].concat());
    let alone = ["3", "7,8", "4"].map(|prompt| ids(&write(&["--ids", prompt])));
    let several = write(&["--ids", "3", "--ids", "7,8", "--ids", "4"]);
    assert_eq!(results(&several), alone);
    let prompts = several["results"].as_array().unwrap().iter().map(|result| &result["prompt_ids"]);
    assert_eq!(prompts.collect::<Vec<_>>(), [&json!([3]), &json!([7, 8]), &json!([4])]);
    assert!(several["tokens_per_second"].as_f64().unwrap() > 0.0);
    // One prompt of three ids stays one prompt.
    assert_eq!(write(&["--ids", "7,8,9"])["prompt_ids"], json!([7, 8, 9]));
    let texts = write(&["--prompt", "你好", "--prompt", "a"]);
    let again = ["你好", "a"].map(|prompt| ids(&write(&["--prompt", prompt])));
    assert_eq!(results(&texts), again);
    let shown = model.text(&["--prompt", "你好", "--prompt", "a", "--num-samples", "2"]);
    assert_contains(&shown, &["--- prompt 1, 1 ---\n你好", "--- prompt 1, 2 ---", "--- prompt 2, 2 ---\na"]);
    assert_contains(&model.text(&["--ids", "3", "--ids", "4"]), &["--- prompt 2 ---\n"]);
}

#[test]
fn a_file_holds_prompts_line_by_line_or_as_json() {
    let model = Model::new();
    let greedy = ["--temperature", "0", "--max-new-tokens", "6"];
    let write = |prompts: &[&str]| results(&model.answer(&[prompts, &greedy].concat()));
    let want = write(&["--prompt", "你好", "--prompt", "a b"]);
    let lines = model.0.write("prompts.txt", "你好\n\na b\r\n");
    assert_eq!(write(&["--prompts", &lines]), want);
    let json = model.0.write("prompts.jsonl", "{\"prompt\": \"你好\", \"id\": 7}\n{\"prompt\": \"a b\"}\n");
    assert_eq!(write(&["--prompts", &json]), want);
    // A list of one is a list.
    let one = model.0.write("one.jsonl", "{\"ids\": [3]}");
    assert_eq!(write(&["--prompts", &one]).len(), 1);
    let piped = model.run(&[&["--prompts", "-", "--json"], &greedy[..]].concat(), "你好\na b".as_bytes());
    assert_eq!(results(&piped.success().json()), want);
    // A whole file is one prompt, as before.
    let whole = model.0.write("whole.txt", "abc\nde");
    assert_eq!(model.answer(&["--raw", "--prompt-file", &whole])["prompt_ids"].as_array().unwrap().len(), 6);
    for (text, part) in [
        ("", "contains no prompt"),
        ("{\"prompt\": \"a\"}\nb", "line 2: not a prompt"),
        ("{\"prompt\": \"a\"}\n{\"text\": \"a\"}", "line 2: expected {\"prompt\": …} or {\"ids\": […]}"),
        ("{\"ids\": []}", "line 1 is empty"),
        ("{\"ids\": [3]}\n{\"ids\": [99]}", "prompt 2 of 2 has id 99"),
    ] {
        let file = model.0.write("bad", text);
        assert_contains(model.run(&["--prompts", &file], b"").code(1).stderr(), &[part]);
    }
    let file = model.0.write("bad", "ab\nxyz");
    let strange = Model::endless().run(&["--prompts", &file], b"").code(1);
    assert_contains(strange.stderr(), &["bad, line 2 "]);
}

#[test]
fn an_explanation_for_programs_has_both_probabilities_of_every_alternative() {
    let model = Model::new();
    let options = ["--max-new-tokens", "3", "--explain", "--temperature", "0.5", "--top-k", "2"];
    let answer = model.answer(&[&["--prompt", "abc", "--num-samples", "2"], &options[..]].concat());
    for completion in answer["completions"].as_array().unwrap() {
        let steps = completion["steps"].as_array().unwrap();
        assert_eq!(steps.len(), completion["ids"].as_array().unwrap().len());
        let mut logprob = 0.0;
        for (step, id) in steps.iter().zip(completion["ids"].as_array().unwrap()) {
            assert!(step["id"] == *id && step["token"].is_string() && step["entropy"].is_f64(), "{step}");
            let alternatives = step["alternatives"].as_array().unwrap();
            let sum = |name: &str| alternatives.iter().map(|a| a[name].as_f64().unwrap()).sum::<f64>();
            assert!((sum("probability") - 1.0).abs() < 1e-6 && sum("model_probability") < 1.0, "{step}");
            let [first, second] = [0, 1].map(|i| {
                let number = |name: &str| alternatives[i][name].as_f64().unwrap();
                (number("probability"), number("model_probability"))
            });
            // Half the temperature squares the odds.
            let odds = (first.0 / second.0, (first.1 / second.1).powi(2));
            assert!((odds.0 / odds.1 - 1.0).abs() < 1e-3, "{odds:?}");
            let chosen = alternatives.iter().find(|a| a["chosen"] == true).unwrap();
            logprob += chosen["model_probability"].as_f64().unwrap().ln();
        }
        assert!((logprob - completion["logprob"].as_f64().unwrap()).abs() < 1e-4);
    }
    assert!(model.answer(&["--prompt", "abc"])["completions"][0].get("steps").is_none());
    let shown = model.text(&[&["--prompt", "abc"], &options[..]].concat());
    assert_contains(&shown, &["sampled", "model", "token 3, entropy"]);
}

#[test]
fn settings_are_compared_on_the_same_prompt() {
    let model = Model::new();
    let prompt = ["--raw", "--prompt", "你好", "--max-new-tokens", "9"];
    let alone = [["--style", "story"], ["--style", "exact"], ["--temperature", "1.5"]];
    let alone = alone.map(|setting| ids(&model.answer(&[&prompt[..], &setting].concat())));
    let compare = ["--compare", "story,exact", "--compare", "temperature=1.5"];
    let compared = model.answer(&[&prompt[..], &compare].concat());
    assert_eq!(results(&compared), alone);
    let labels = compared["results"].as_array().unwrap().iter().map(|result| &result["label"]);
    assert_eq!(labels.collect::<Vec<_>>(), ["story", "exact", "temperature=1.5"]);
    assert_eq!(compared["results"][0]["settings"]["top_k"], 40);
    let shown = model.text(&[&prompt[..], &compare].concat());
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "你好");
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["story", "exact", "temperature=1.5"]);
    // Both prompts under both settings, in this order.
    let four = ["--ids", "3", "--ids", "4", "--compare", "exact", "--compare", "top_k=1,seed=5"];
    let four = model.answer(&four);
    let prompts = four["results"].as_array().unwrap().iter().map(|result| result["prompt_ids"][0].clone());
    assert_eq!(prompts.collect::<Vec<_>>(), [3, 3, 4, 4]);
    let four = results(&four);
    assert!(
        four[0] == four[1] && four[2] == four[3],
        "the likeliest of one is the likeliest of all: {four:?}"
    );
}

#[test]
fn bad_input_is_refused_in_words() {
    let model = Model::new();
    let cases: [(&[&str], i32, &str); 13] = [
        (&["--ids", "one"], 2, "invalid value"),
        (&["--prompt", "a", "--prompt", ""], 1, "prompt 2 is empty"),
        (&["--prompt", "a", "--compare", "poem"], 2, "neither a style (story, code, summary, exact)"),
        (&["--prompt", "a", "--compare", "heat=1"], 2, "unknown setting heat"),
        (&["--prompt", "a", "--compare", "exact", "--compare", "top_p=7"], 1, "top_p"),
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

/// BLOCK_SIZE is small: the text slides, which changes nothing about its form.
#[test]
fn structured_output_follows_a_schema_or_a_grammar() {
    let model = Model::with(&SPECIAL, "{}[]:,\"abcdefn 0123456789\n", true);
    let schema = r#"{"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 3}}, "required": ["a"], "additionalProperties": false}"#;
    let file = model.0.write("schema.json", schema);
    for schema in [schema, &file] {
        let answer = model.answer(&["--prompt", "b", "--json-schema", schema, "--max-new-tokens", "150"]);
        let text = answer["completions"][0]["text"].as_str().unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert!((2..=3).contains(&value["a"].as_array().unwrap().len()), "{value}");
    }
    // Every variant of a comparison is held to it.
    let grammar = model.0.write("ab.gbnf", "root ::= \"ab\" [cd] # three letters\n");
    let compared = model.answer(&["--prompt", "b", "--grammar", &grammar, "--compare", "story,exact"]);
    for result in compared["results"].as_array().unwrap() {
        let text = result["completions"][0]["text"].as_str().unwrap();
        assert!(["abc", "abd"].contains(&text), "{text}");
    }
    let refused =
        |args: &[&str]| model.run(&[&["--prompt", "b"], args].concat(), b"").code(1).stderr().to_owned();
    let wrong = model.0.write("wrong.gbnf", "root ::= \"a\"\nb ::= (");
    assert_contains(&refused(&["--grammar", &wrong]), &["--grammar", "line 2"]);
    assert_contains(&refused(&["--json-schema", "{"]), &["--json-schema is not JSON"]);
    assert_contains(&refused(&["--json-schema", "no such file"]), &["--json-schema no such file"]);
    assert_contains(
        &refused(&["--json-schema", "{}", "--num-beams", "2", "--temperature", "0"]),
        &["num_beams must be 1"],
    );
}
