//! Chat templates that never end, or grow without end: a question gets an answer or a refusal in bounded time and memory.

use crate::Outcome;
use crate::files::copy;
use crate::fixtures::Fixtures;
use crate::random::Random;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub fn template(random: &mut Random, fixtures: &Fixtures, place: &Path) -> Outcome {
    let model = place.join("model");
    copy(&fixtures.path("bpe"), &model);
    let text: String = (0..=random.below(3)).map(|_| part(random, 0)).collect();
    let path = model.join("tokenizer_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap_or_default()).unwrap_or(json!({}));
    config["chat_template"] = text.into();
    fs::write(path, config.to_string()).unwrap();
    if random.one_in(4) {
        let exported =
            fixtures.program(&["export", "--model", "model", "--to", "gguf", "--out", "model.gguf"]);
        let exported = exported.run(place);
        exported.in_words()?;
        if exported.succeeded() {
            return ask(fixtures, place, "model.gguf");
        }
    }
    ask(fixtures, place, "model")
}

fn ask(fixtures: &Fixtures, place: &Path, model: &str) -> Outcome {
    let chat = fixtures.program(&["chat", "--model", model, "--set", "max_new_tokens=3"]);
    chat.stdin("the cat\nthe dog\n").run(place).in_words()
}

/// A large number, or one at an edge.
fn number(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.pick(&["0", "-1", "9223372036854775807", "-9223372036854775808", "1e308"]).to_string(),
        1 => format!("10 ** {}", random.below(40)),
        _ => (10u64.pow(random.below(12) as u32)).to_string(),
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    if depth > 4 {
        return random
            .pick(&["x", "'ab'", "messages", "messages[0].content", "[]", "1", "bos_token"])
            .to_string();
    }
    let inner = expression(random, depth + 1);
    match random.below(12) {
        0 => format!("({inner} * {})", number(random)),
        1 => format!("({inner} ~ {inner})"),
        2 => format!("range({})", number(random)),
        3 => format!("(range({}) | list)", number(random)),
        4 => format!(
            "({inner} | {})",
            random.pick(&["tojson", "list", "join('xx')", "length", "reverse", "upper", "trim"])
        ),
        5 => format!("({inner} | indent({}))", number(random)),
        6 => format!("('%{}d' | format({inner}))", number(random)),
        7 => format!("({inner} | replace('', {inner}))"),
        8 => format!("({inner} | batch({}))", number(random)),
        9 => format!("{}{inner}{}", "(".repeat(random.small(5000)), ")".repeat(random.small(5000))),
        10 => {
            let links = [".a", "[0]", " + 1", " | upper", " ~ 'x'"];
            format!("{inner}{}", random.pick(&links).repeat(random.small(5000)))
        }
        _ => format!("[{inner}, {inner}]"),
    }
}

fn part(random: &mut Random, depth: usize) -> String {
    let value = expression(random, depth);
    if depth > 3 {
        return format!("{{{{ {value} }}}}");
    }
    let body = part(random, depth + 1);
    match random.below(7) {
        0 => format!("{{% set x = {value} %}}{body}"),
        1 => format!("{{% for i in range({}) %}}{body}{{% endfor %}}", number(random)),
        2 => format!(
            "{{% set n = namespace(x='ab') %}}{{% for i in range({}) %}}{{% set n.x = n.x ~ n.x %}}{{% endfor %}}{{{{ n.x }}}}",
            random.below(80)
        ),
        3 => format!("{{% macro f(a) %}}{{{{ f(a ~ a) }}}}{body}{{% endmacro %}}{{{{ f({value}) }}}}"),
        4 => format!("{{% for m in messages recursive %}}{{{{ loop([m]) }}}}{body}{{% endfor %}}"),
        5 => {
            let times = random.small(3000);
            format!("{}{body}{}", "{% if true %}".repeat(times), "{% endif %}".repeat(times))
        }
        _ => format!("{{{{ {value} }}}}{body}"),
    }
}
