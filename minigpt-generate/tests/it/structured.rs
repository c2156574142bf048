//! Structured output: whatever a model prefers, its text follows the schema or grammar; and nothing else changes.

use minigpt_generate::{
    Completion, ContextRule, Engine, EngineConfig, EngineEvent, Error, FinishReason, GenerationConfig,
    Grammar, GrammarCompiler, Request, generate,
};
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::{CharTokenizer, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};

/// All printable ASCII, white space, and characters of two, three and four bytes.
fn characters() -> Tokenizer {
    let characters = (' '..='~').chain("\n\téß中文🦀".chars());
    Tokenizer::Char(CharTokenizer::from_text(&["<pad>", "<end>"], characters).unwrap())
}

/// GPT-2's vocabulary, prepared once.
fn gpt2() -> &'static (Tokenizer, GrammarCompiler) {
    static GPT2: OnceLock<(Tokenizer, GrammarCompiler)> = OnceLock::new();
    GPT2.get_or_init(|| {
        let tokenizer = Tokenizer::gpt2();
        let compiler = GrammarCompiler::new(&tokenizer, tokenizer.vocab_size()).unwrap();
        (tokenizer, compiler)
    })
}

fn end(tokenizer: &Tokenizer) -> u32 {
    tokenizer.special_id("<end>").unwrap()
}

fn gpt(vocab_size: usize, block_size: usize, seed: u64) -> Gpt {
    let config = Config {
        vocab_size,
        block_size,
        n_layer: 1,
        n_head: 2,
        n_embd: 16,
        initializer_range: 0.4,
        ..Config::default()
    };
    Gpt::new(config, seed, &Device::Cpu).unwrap()
}

/// A text under a grammar by a model with random weights, drawn at temperature 1 from all tokens.
fn write(tokenizer: &Tokenizer, grammar: &Grammar, seed: u64, most: usize) -> Result<Completion, Error> {
    let gpt = gpt(tokenizer.vocab_size(), 512, seed);
    let compiler = if tokenizer.vocab_size() == gpt2().0.vocab_size() {
        &gpt2().1
    } else {
        &GrammarCompiler::new(tokenizer, tokenizer.vocab_size())?
    };
    let config = GenerationConfig {
        max_new_tokens: most,
        do_sample: true,
        top_k: 0,
        seed,
        eos_token_id: tokenizer.special_id("<end>").into_iter().collect(),
        context: ContextRule::Stop,
        constraint: Some(compiler.compile(grammar)?),
        ..GenerationConfig::default()
    };
    let written = generate(&gpt, &[vec![2, 3, 4]], &config, Some(tokenizer))?;
    Ok(written.into_iter().next().unwrap())
}

/// A schema, and whether a value satisfies it.
type Case = (Value, fn(&Value) -> bool);

fn schemas() -> Vec<Case> {
    vec![
        (
            json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "maxLength": 8 },
                    "age": { "type": "integer", "minimum": 0, "maximum": 150 },
                    "tags": { "type": "array", "items": { "enum": ["a", "b", "中"] }, "minItems": 1, "maxItems": 3 }
                },
                "required": ["name", "age", "tags"],
                "additionalProperties": false
            }),
            |value| {
                let tags = value["tags"].as_array().unwrap();
                value["name"].as_str().is_some_and(|name| name.chars().count() <= 8)
                    && value["age"].as_u64().is_some_and(|age| age <= 150)
                    && (1..=3).contains(&tags.len())
                    && tags.iter().all(|tag| ["a", "b", "中"].contains(&tag.as_str().unwrap()))
                    && value.as_object().unwrap().len() == 3
            },
        ),
        (json!({ "enum": [1, "two", null, [3, { "four": false }]] }), |value| {
            [json!(1), json!("two"), Value::Null, json!([3, { "four": false }])].contains(value)
        }),
        (
            json!({
                "$defs": { "node": {
                    "type": "object",
                    "properties": { "v": { "type": "boolean" }, "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } },
                    "required": ["v", "next"],
                    "additionalProperties": false
                } },
                "$ref": "#/$defs/node"
            }),
            |value| {
                let mut node = value;
                while node.is_object() {
                    assert!(node["v"].is_boolean() && node.as_object().unwrap().len() == 2);
                    node = &node["next"];
                }
                node.is_null()
            },
        ),
        (json!({ "type": "string", "pattern": "^[a-f]{2,4}é$" }), |value| {
            let text = value.as_str().unwrap();
            let letters = text.strip_suffix('é').unwrap();
            (2..=4).contains(&letters.len()) && letters.bytes().all(|byte| (b'a'..=b'f').contains(&byte))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_the_weights_a_text_that_ends_satisfies_its_schema(seed in any::<u64>(), which in 0usize..4) {
        let (schema, holds) = &schemas()[which];
        let written = write(&characters(), &Grammar::JsonSchema(schema.clone()), seed, 400).unwrap();
        let text = written.text.unwrap();
        if written.finish_reason == Some(FinishReason::Stop) {
            let value: Value = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{text:?}: {error}")))?;
            prop_assert!(holds(&value), "{} does not satisfy {}", value, schema);
        } else {
            // Only a recursion or a number may go on so long.
            prop_assert!(which == 2, "{:?} has no end", text);
        }
    }

    #[test]
    fn a_grammar_of_brackets_is_followed(seed in any::<u64>()) {
        let grammar = Grammar::Gbnf("root ::= pair{1,3} # pairs\npair ::= \"(\" root? \")\" | \"[\" root? \"]\"".to_owned());
        let text = write(&characters(), &grammar, seed, 300).unwrap().text.unwrap();
        let mut open = Vec::new();
        for bracket in text.chars() {
            match bracket {
                '(' => open.push(')'),
                '[' => open.push(']'),
                closing => prop_assert_eq!(open.pop(), Some(closing), "{}", text),
            }
        }
    }
}

#[test]
fn any_object_is_json_also_with_byte_level_tokens() {
    let (tokenizer, _) = gpt2();
    for seed in 0..4 {
        let written = write(tokenizer, &Grammar::JsonObject, seed, 30).unwrap();
        let text = written.text.unwrap();
        assert!(text.starts_with('{'), "{text:?}");
        if written.finish_reason == Some(FinishReason::Stop) {
            assert!(serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object()), "{text:?}");
        }
    }
}

#[test]
fn a_choice_and_a_regular_expression_are_met_exactly() {
    let tokenizer = characters();
    for seed in 0..20 {
        let choices = ["yes", "no", "no, never", "中文 🦀"].map(str::to_owned).to_vec();
        let chosen = write(&tokenizer, &Grammar::Choice(choices.clone()), seed, 50).unwrap();
        assert!(choices.contains(chosen.text.as_ref().unwrap()), "{chosen:?}");
        assert_eq!(chosen.finish_reason, Some(FinishReason::Stop));
        let date =
            write(&tokenizer, &Grammar::Regex(r"^\d{4}-(0[1-9]|1[0-2])$".to_owned()), seed, 50).unwrap();
        let text = date.text.unwrap();
        assert!(text.len() == 7 && text.as_bytes()[4] == b'-', "{text}");
    }
}

#[test]
fn the_end_comes_only_where_the_grammar_may_end() {
    let tokenizer = characters();
    // The likeliest token by far is the one that ends a text.
    let gpt = gpt(tokenizer.vocab_size(), 64, 1);
    let compiler = GrammarCompiler::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let constraint = Some(compiler.compile(&Grammar::Gbnf("root ::= \"ab\" | \"abcd\"".to_owned())).unwrap());
    let write = |eos_token_id: Vec<u32>, ignore_eos: bool, bias: f32| {
        let config = GenerationConfig {
            eos_token_id: eos_token_id.clone(),
            constraint: constraint.clone(),
            ..GenerationConfig::default()
        };
        let logit_bias = eos_token_id.iter().map(|&id| (id, bias)).collect();
        let request = Request { ignore_eos, logit_bias, ..Request::new(vec![2], config) };
        let mut engine =
            Engine::new(gpt.clone(), Some(Arc::new(characters())), &EngineConfig::default()).unwrap();
        engine.submit(request).unwrap();
        let (mut text, mut finish) = (String::new(), None);
        while !engine.is_idle() {
            for (_, event) in engine.step() {
                match event {
                    EngineEvent::Token { text: piece, .. } => text += &piece,
                    EngineEvent::Done { reason, .. } => finish = Some(reason),
                    EngineEvent::Failed(error) => panic!("{error}"),
                    _ => {}
                }
            }
        }
        (text, finish)
    };
    let stop = Some(FinishReason::Stop);
    let end = end(&tokenizer);
    assert_eq!(write(vec![end], false, 1000.0), ("ab".to_owned(), stop));
    assert_eq!(write(vec![end], false, -1000.0), ("abcd".to_owned(), stop));
    assert_eq!(write(vec![end], true, 1000.0), ("abcd".to_owned(), stop));
    assert_eq!(write(Vec::new(), false, 0.0), ("abcd".to_owned(), stop));
    // A token that ends texts and is a letter as well is no letter here.
    let b = tokenizer.encode("d").unwrap();
    assert_eq!(write(b, false, 1000.0), ("ab".to_owned(), stop));
}

#[test]
fn a_neighbour_with_a_schema_changes_no_bit_of_the_others() {
    let tokenizer = Arc::new(characters());
    let gpt = gpt(tokenizer.vocab_size(), 64, 3);
    let compiler = GrammarCompiler::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let constraint = Some(compiler.compile(&Grammar::JsonObject).unwrap());
    let plain = || {
        Request::new(vec![5, 6, 7], GenerationConfig { max_new_tokens: 20, ..GenerationConfig::default() })
    };
    let run = |requests: Vec<Request>| {
        let mut engine =
            Engine::new(gpt.clone(), Some(Arc::clone(&tokenizer)), &EngineConfig::default()).unwrap();
        let first = engine.submit(requests[0].clone()).unwrap();
        for request in &requests[1..] {
            engine.submit(request.clone()).unwrap();
        }
        let mut tokens = Vec::new();
        while !engine.is_idle() {
            for (id, event) in engine.step() {
                if let EngineEvent::Token { id: token, logprob, .. } = event
                    && id == first
                {
                    tokens.push((token, logprob.to_bits()));
                }
            }
        }
        tokens
    };
    let mut bound = plain();
    bound.config.constraint = constraint;
    let alone = run(vec![plain()]);
    assert_eq!(run(vec![plain(), bound.clone(), bound.clone()]), alone);
    // And bound texts are the same in any company.
    assert_eq!(run(vec![bound.clone()]), run(vec![bound, plain(), plain()]));
}

#[test]
fn a_vocabulary_that_can_not_write_it_is_an_error_of_that_text_alone() {
    let letters = Tokenizer::Char(CharTokenizer::from_text(&[], 'a'..='f').unwrap());
    let compiler = GrammarCompiler::new(&letters, 6).unwrap();
    let refused = compiler.compile(&Grammar::JsonObject).unwrap_err().to_string();
    assert!(refused.contains("no token of the vocabulary can begin"), "{refused}");
    // It begins well, and finds out later.
    let constraint = Some(compiler.compile(&Grammar::Choice(vec!["abx".to_owned()])).unwrap());
    let config = GenerationConfig { constraint, max_new_tokens: 9, ..GenerationConfig::default() };
    let mut engine = Engine::new(gpt(6, 32, 1), Some(Arc::new(letters)), &EngineConfig::default()).unwrap();
    let bound = engine.submit(Request::new(vec![1], config)).unwrap();
    let free = GenerationConfig { max_new_tokens: 9, ..GenerationConfig::default() };
    let other = engine.submit(Request::new(vec![1], free)).unwrap();
    let (mut failed, mut done) = (Vec::new(), Vec::new());
    while !engine.is_idle() {
        for (id, event) in engine.step() {
            match event {
                EngineEvent::Failed(error) => failed.push((id, error.to_string())),
                EngineEvent::Done { .. } => done.push(id),
                _ => {}
            }
        }
    }
    assert_eq!(done, [other]);
    assert!(
        failed.len() == 1 && failed[0].0 == bound && failed[0].1.contains("no token with which"),
        "{failed:?}"
    );
}

#[test]
fn beams_go_with_no_schema() {
    let tokenizer = characters();
    let compiler = GrammarCompiler::new(&tokenizer, tokenizer.vocab_size()).unwrap();
    let constraint = Some(compiler.compile(&Grammar::JsonObject).unwrap());
    let config = GenerationConfig { num_beams: 2, constraint, ..GenerationConfig::default() };
    let refused = config.validate().unwrap_err().to_string();
    assert_eq!(refused, "num_beams must be 1 with a schema or grammar, but is 2");
}

/// A schema with `depth` arrays inside each other.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({ "type": "integer" }), |inner, _| json!({ "type": "array", "items": inner }))
}

#[test]
fn what_is_too_much_or_makes_no_sense_is_refused_with_the_reason() {
    let (_, compiler) = gpt2();
    let schema = |schema: Value| Grammar::JsonSchema(schema);
    let refused = |grammar: Grammar| match compiler.compile(&grammar) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{grammar:?} is accepted"),
    };
    for (grammar, part) in [
        (schema(json!([])), "must be an object"),
        (schema(json!(false)), "no value satisfies"),
        (schema(json!({ "type": "text" })), "type"),
        (schema(json!({ "not": { "type": "string" } })), "not"),
        (
            schema(json!({ "type": "string", "contentEncoding": "base64" })),
            "contentEncoding is not supported",
        ),
        (
            schema(
                json!({ "properties": { "a": { "items": { "type": "string", "contentMediaType": "text/html" } } } }),
            ),
            "contentMediaType is not supported",
        ),
        (
            schema(json!({ "oneOf": [{ "type": "string" }, { "type": "string", "maxLength": 3 }] })),
            "oneOf is only supported if its alternatives exclude each other: use anyOf",
        ),
        (schema(json!({ "$ref": "https://example.org/schema" })), "ref"),
        (schema(json!({ "$ref": "#/nowhere" })), "nowhere"),
        (schema(json!({ "x-guidance": { "lenient": true } })), "x-guidance"),
        (schema(json!({ "type": "integer", "minimum": 5, "maximum": 4 })), "minimum"),
        (schema(nested(200)), "more than 100 levels"),
        (schema(json!({ "type": "number", "multipleOf": 1e-9 })), "multipleOf must be from"),
        (schema(json!({ "enum": vec!["x".repeat(2000); 100] })), "bytes"),
        (Grammar::Regex("(".to_owned()), ""),
        (Grammar::Regex("(?=a)b".to_owned()), ""),
        (Grammar::Choice(Vec::new()), "nothing to choose"),
        (Grammar::Gbnf(String::new()), "no rule named root"),
        (Grammar::Gbnf("root ::= root".to_owned()), ""),
        (Grammar::Gbnf("root ::= \"a\"\n\nx ::= y".to_owned()), "line 3: there is no rule named y"),
        (Grammar::Gbnf("root ::= (\n\"a\" <[17]>)".to_owned()), "line 2: tokens such as"),
        (Grammar::Gbnf("root ::= ".to_owned() + &"(".repeat(100_000)), "parentheses"),
        (Grammar::Gbnf("root ::= \"a\"{1,999999999}".to_owned()), "line 1: a repetition has"),
    ] {
        let refused = refused(grammar);
        assert!(refused.contains(part), "{refused}");
        assert!(!refused.contains("<backtrace>") && refused.len() < 600, "{refused}");
        assert!(!refused.contains("coerce_one_of"), "{refused}");
    }
    // Names of properties and values are no keywords.
    for accepted in [
        json!({ "properties": { "contentEncoding": { "type": "string" }, "multipleOf": { "type": "number" } } }),
        json!({ "enum": [{ "contentEncoding": "base64", "multipleOf": 1e-9 }] }),
    ] {
        compiler.compile(&schema(accepted)).unwrap();
    }
}

#[test]
fn a_minimum_length_goes_with_no_schema() {
    let (_, compiler) = gpt2();
    let constraint = Some(compiler.compile(&Grammar::Gbnf("root ::= \"a\"".to_owned())).unwrap());
    let config = GenerationConfig { min_new_tokens: 8, constraint, ..GenerationConfig::default() };
    let refused = config.validate().unwrap_err().to_string();
    assert_eq!(
        refused,
        "min_new_tokens must be 0 with a schema or grammar, but is 8: the text ends where the grammar does"
    );
}

#[test]
fn hostile_schemas_take_little() {
    let (tokenizer, compiler) = gpt2();
    let gpt = gpt(tokenizer.vocab_size(), 64, 1);
    let many = |n: usize| {
        (0..n).map(|i| (format!("p{i}"), json!({ "type": "string" }))).collect::<serde_json::Map<_, _>>()
    };
    let any_of = |n: usize| json!({ "anyOf": (0..n).map(|i| json!({ "type": "object", "properties": { format!("k{i}"): {} } })).collect::<Vec<_>>() });
    for grammar in [
        Grammar::JsonSchema(json!({ "type": "string", "minLength": 1_000_000_000u64 })),
        Grammar::JsonSchema(json!({ "type": "array", "minItems": 1_000_000_000u64 })),
        Grammar::JsonSchema(
            json!({ "type": "array", "items": nested(90), "minItems": 5000, "maxItems": 100_000 }),
        ),
        Grammar::JsonSchema(json!({ "type": "object", "properties": many(600) })),
        Grammar::JsonSchema(
            json!({ "type": "object", "minProperties": 50_000, "additionalProperties": nested(9) }),
        ),
        Grammar::JsonSchema(json!({ "allOf": [any_of(40), any_of(40), any_of(40), any_of(40)] })),
        Grammar::JsonSchema(json!({ "type": "string", "pattern": "(a|b)*a(a|b){200}" })),
        Grammar::Regex("(.*a){1000}".to_owned()),
        Grammar::Regex("(a?){5000}a{5000}".to_owned()),
        Grammar::Regex("((a{1,1000}){1,1000}){1,1000}".to_owned()),
        Grammar::Gbnf("root ::= root root | \"a\" | \"\"".to_owned()),
        Grammar::Gbnf("root ::= e\ne ::= e e | e e e | [a-z ] | \"th\" | \"the\"".to_owned()),
        Grammar::Gbnf("root ::= ((\"a\"{0,1000}){0,1000}){0,1000}".to_owned()),
        Grammar::Gbnf(
            (0..5000).map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1)).collect::<String>()
                + "r5000 ::= \"a\"\nroot ::= r0",
        ),
    ] {
        let name = format!("{grammar:?}").chars().take(90).collect::<String>();
        let Ok(constraint) = compiler.compile(&grammar) else { continue };
        let config = GenerationConfig {
            max_new_tokens: 4,
            constraint: Some(constraint),
            context: ContextRule::Stop,
            ..GenerationConfig::default()
        };
        match generate(&gpt, &[vec![2, 3]], &config, Some(tokenizer)) {
            Ok(written) => assert!(written[0].ids.len() <= 4, "{name}"),
            Err(Error::Constraint { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn texts_of_an_ambiguous_grammar_end_with_an_error_and_a_neighbour_finishes() {
    let (tokenizer, compiler) = gpt2();
    let grammar = Grammar::Gbnf("root ::= e\ne ::= e e | [a-z ]".to_owned());
    let constraint = Some(compiler.compile(&grammar).unwrap());
    let config = EngineConfig { slots: 8, ..EngineConfig::default() };
    let tokens = Arc::new(tokenizer.clone());
    let mut engine = Engine::new(gpt(tokenizer.vocab_size(), 256, 1), Some(tokens), &config).unwrap();
    let hostile = GenerationConfig {
        max_new_tokens: 200,
        do_sample: true,
        top_k: 0,
        context: ContextRule::Stop,
        constraint,
        ..GenerationConfig::default()
    };
    for stream in 0..7 {
        engine.submit(Request { stream, ..Request::new(vec![2], hostile.clone()) }).unwrap();
    }
    let free = GenerationConfig { max_new_tokens: 100, ..GenerationConfig::default() };
    let neighbour = engine.submit(Request::new(vec![3], free)).unwrap();
    let (mut written, mut failed, mut done) = (0, 0, Vec::new());
    while !engine.is_idle() {
        for (id, event) in engine.step() {
            match event {
                EngineEvent::Failed(error) => {
                    assert!(error.to_string().contains("too ambiguous"), "{error}");
                    failed += 1;
                }
                EngineEvent::Done { .. } => done.push(id),
                EngineEvent::Token { .. } if id != neighbour => written += 1,
                _ => {}
            }
        }
    }
    assert_eq!((failed, done), (7, vec![neighbour]));
    assert!(written < 7 * 60, "{written} tokens were written before the grammar was refused");
}
