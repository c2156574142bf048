//! What is accepted is done, or refused with the reason: options of `inspect` in every mode, numbers that are none, commands that
//! the program suggests.

use crate::support::{
    Place, SPECIAL, answer, assert_contains, characters, end_with_test, failure, fixture, minigpt, shown,
    small,
};
use minigpt_model::Config;
use serde_json::Value;
use std::collections::BTreeSet;
use std::thread;

const LETTERS: &str = "你好吗我很abc.\n-!' ";

fn model(place: &Place, name: &str) -> String {
    let tokenizer = characters(&SPECIAL, LETTERS);
    let shape = Config { block_size: 16, n_embd: 8, ..small(tokenizer.vocab_size()) };
    place.model(name, shape, Some(&tokenizer))
}

/// A folder with two snapshots.
fn run_with_snapshots(place: &Place) -> String {
    model(place, "run/snapshots/step-1");
    model(place, "run/snapshots/step-2");
    place.text("run")
}

/// What a command prints and writes; or why it refuses.
fn outcome(args: &[&str], files: &[&str]) -> Result<String, String> {
    let done = minigpt(args).run();
    if done.failed() {
        return Err(done.stderr().to_owned());
    }
    let written = files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    Ok([done.stdout().to_owned(), done.stderr().to_owned()]
        .into_iter()
        .chain(written)
        .collect::<Vec<_>>()
        .join("\n"))
}

/// Every option of `inspect` in every mode: it changes what is said, or it is refused by name. An option that this table does not
/// have fails the test, so that none can be added and forgotten.
#[test]
fn no_option_of_inspect_is_ignored_in_any_mode() {
    let place = Place::new();
    let (folder, run) = (model(&place, "model"), run_with_snapshots(&place));
    let treebank =
        place.write("a.conllu", "1\t你\t_\t_\t_\t_\t0\troot\t_\t_\n2\t好\t_\t_\t_\t_\t1\tobj\t_\t_\n\n");
    let pages: Vec<String> = (0..40).map(|mode| place.text(&format!("page{mode}.html"))).collect();
    let svg = place.text("heads.svg");
    let modes: Vec<Vec<&str>> = vec![
        vec![&folder, "--prompt", "你好.我"],
        vec![&folder, "--prompt", "你好.我", "--json"],
        vec![&folder, "--ids", "12,14,8,16"],
        vec![&folder, "--prompt", "你好.我", "--attention"],
        vec![&folder, "--prompt", "你好.我", "--attention", "--json"],
        vec![&folder, "--prompt", "你好.我", "--walk"],
        vec![&folder, "--prompt", "你好.我", "--lens"],
        vec![&folder, "--prompt", "你好.我", "--attribution"],
        vec![&folder, "--prompt", "你好.我", "--ablate", "0.1"],
        vec![&folder, "--prompt", "你好.我", "--patch", "你很.我"],
        vec![&folder, "--prompt", "你好.我吗.很好\nabc", "--boundaries"],
        vec![&folder, "--prompt", "你好.我", "--html", &pages[39]],
        vec![&folder, "--heads"],
        vec![&folder, "--relations", &treebank],
        vec![&folder, "--tensors"],
        vec!["--example", "softmax"],
        vec![&run, "--snapshots", "--prompt", "你好.我"],
        vec![&run, "--snapshots", "--prompt", "你好.我", "--json"],
        vec![&run, "--snapshots", "--heads"],
    ];
    let options: Vec<Vec<&str>> = vec![
        vec!["--prompt", "好你"],
        vec!["--ids", "4,5"],
        vec!["--top", "3"],
        vec!["--full"],
        vec!["--attention"],
        vec!["--walk"],
        vec!["--layer", "0"],
        vec!["--layer", "1"],
        vec!["--head", "0"],
        vec!["--head", "1"],
        vec!["--position", "1"],
        vec!["--lens"],
        vec!["--attribution"],
        vec!["--token", "9"],
        vec!["--heads"],
        vec!["--distance", "3"],
        vec!["--ablate", "mlp.1"],
        vec!["--mean"],
        vec!["--reference", "你你"],
        vec!["--patch", "你很.很"],
        vec!["--patch-ids", "12,12,8,9"],
        vec!["--other-token", "8"],
        vec!["--boundaries"],
        vec!["--relations", &treebank],
        vec!["--snapshots"],
        vec!["--svg", &svg],
        vec!["--example", "gelu"],
        vec!["--temperature", "0"],
        vec!["--top-k", "2"],
        vec!["--top-p", "0.1"],
        vec!["--tensors"],
        vec!["--seed", "7"],
        vec!["--json"],
    ];
    // They change how long it takes, where it is computed, the language, or nothing for a model of f32.
    let of_the_machine = ["--threads", "--device", "--exact", "--lang", "--help", "--version"];
    let help = shown(&["inspect", "--help"]);
    let known: BTreeSet<&str> =
        options.iter().map(|option| option[0]).chain(of_the_machine).chain(["--html"]).collect();
    let options_of_help = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let listed =
        options_of_help.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    for option in listed {
        assert!(known.contains(option), "{option} has no row in this test");
    }
    // The layer or the head that is shown anyway, views that a page has anyway, and draws of which one token came out all the
    // same.
    let same = |mode: &[&str], option: &[&str]| {
        let walks = mode.contains(&"--walk") || mode.contains(&"--html");
        let first = walks && option[1..] == ["0"] && option[0] != "--temperature";
        let last = mode.contains(&"--attention") && *option == ["--layer", "1"];
        let drawn = walks && option[0] == "--seed";
        let views = ["--walk", "--lens", "--attribution", "--heads"];
        let on_the_page = mode.contains(&"--html") && views.contains(&option[0]);
        first || last || drawn || on_the_page
    };
    let check = |(number, mode): (usize, &Vec<&str>)| {
        // Each mode has a page of its own.
        let html =
            mode.iter().position(|word| *word == "--html").map_or(pages[number].as_str(), |at| mode[at + 1]);
        let base =
            outcome(&[&["inspect"], &mode[..]].concat(), &[html]).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
        for option in options.iter().chain([&vec!["--html", html]]) {
            if mode.contains(&option[0]) || same(mode, option) {
                continue;
            }
            let args = [&["inspect"], &mode[..], option].concat();
            let files: &[&str] = if option[0] == "--svg" { &[html, &svg] } else { &[html] };
            match outcome(&args, files) {
                Ok(said) => assert_ne!(said, base, "{args:?} ignores {}", option[0]),
                Err(why) => assert!(
                    // A patch that does not fit the text is refused for its length.
                    [option[0], "snapshots", "patching needs two texts"]
                        .iter()
                        .any(|part| why.contains(part)),
                    "{args:?} is refused without naming {}: {why}",
                    option[0]
                ),
            }
        }
    };
    let (first, second): (Vec<_>, Vec<_>) = modes.iter().enumerate().partition(|(number, _)| number % 2 == 0);
    thread::scope(|scope| {
        scope.spawn(|| first.into_iter().for_each(check));
        scope.spawn(|| second.into_iter().for_each(check));
    });
}

#[test]
fn what_an_option_needs_is_said() {
    let place = Place::new();
    let folder = model(&place, "model");
    for (args, part) in [
        (
            &["--prompt", "你", "--layer", "1"][..],
            "--layer has no effect here: it takes effect with --walk or with --html or with --attention and without --json",
        ),
        (&["--tensors", "--layer", "99"], "--layer has no effect"),
        (&["--prompt", "你", "--full"], "--full has no effect here: it takes effect with --json"),
        (
            &["--prompt", "你", "--token", "3"],
            "--token has no effect here: it takes effect with --attribution or with --patch",
        ),
        (&["--prompt", "你", "--top", "0"], "expected 1 or more"),
        (&["--ids", "1,,2"], "expected token ids, for example 1,2,3"),
        (&["--snapshots", "--heads", "--svg", "x.txt"], "its name must end in .svg"),
        (
            &["--snapshots", "--prompt", "你", "--walk"],
            "--walk has no effect here: it takes effect without --snapshots or with --json",
        ),
    ] {
        let error = failure(&[&["inspect", &folder], args].concat(), 2);
        assert_contains(&error, &[part]);
    }
    let error = failure(&["inspect", &folder, "--example", "gelu"], 2);
    assert_contains(&error, &["MODEL has no effect here: it takes effect without --example"]);
    let chinese = failure(&["inspect", &folder, "--tensors", "--layer", "1", "--lang", "zh"], 2);
    assert_contains(&chinese, &["--layer 在这里不起作用"]);
}

#[test]
fn the_lens_is_at_the_position_that_was_asked_for() {
    let model = fixture("gpt2");
    let all = answer(&["inspect", &model, "--ids", "1,2,3,4", "--lens", "--full"]);
    let one = answer(&["inspect", &model, "--ids", "1,2,3,4", "--lens", "--position", "1", "--full"]);
    assert_eq!(one["lens_position"], 1);
    for layer in 0..3 {
        assert_eq!(one["lens"][layer].as_array().unwrap().len(), 1);
        assert_eq!(one["lens_logits"][layer].as_array().unwrap().len(), 1);
        assert_eq!(one["lens"][layer][0][0]["id"], all["lens"][layer][1][0]["id"], "layer {layer}");
    }
    let said = shown(&["inspect", &model, "--ids", "1,2,3,4", "--lens", "--position", "1"]);
    assert_contains(&said, &["Logit lens after position 1 (2)"]);
}

#[test]
fn characters_that_the_vocabulary_lacks_are_named() {
    let place = Place::new();
    let tokenizer = characters(&[], "你好吗");
    let folder = place.model("bare", Config { block_size: 16, n_embd: 8, ..small(3) }, Some(&tokenizer));
    let args =
        ["inspect", &folder, "--prompt", "你喜欢好喜吗？", "--ablate", "0.0", "--mean", "--reference", "好x"];
    let done = minigpt(&args).run().success();
    assert_contains(
        done.stderr(),
        &[
            "--prompt: '喜' × 2, '欢' × 1, '？' × 1 are not in the vocabulary and are left out",
            "--reference: 'x' × 1",
        ],
    );
    let seen = answer(&args);
    assert_eq!(seen["unknown"], serde_json::json!(["x", "喜", "欢", "？"]));
    assert_eq!(seen["tokens"], serde_json::json!(["你", "好", "吗"]));
    let known = answer(&["inspect", &folder, "--prompt", "你好"]);
    assert_eq!(known["unknown"], serde_json::json!([]));
    assert_eq!(answer(&["inspect", &folder, "--ids", "1,2"])["unknown"], Value::Null);
}

/// The same for options of other commands that do something only beside others.
#[test]
fn options_of_other_commands_say_what_they_need() {
    for (args, part) in [
        (
            &["serve", "x", "--no-page", "--open"][..],
            "--open has no effect here: it takes effect without --no-page",
        ),
        (
            &["generate", "x", "--ids", "1", "--raw"][..],
            "--raw has no effect here: it takes effect without --ids",
        ),
        (
            &["plan", "gpt2", "--network", "1GbE"],
            "--network has no effect here: it takes effect with --machines",
        ),
        (&["plan", "gpt2", "--tensors", "--tokens", "5"], "--tokens has no effect"),
        (
            &["eval", "x", "--data", "y", "--seed", "3"],
            "--seed has no effect here: it takes effect with --part",
        ),
        (&["scaling", "plan", "x", "--widths", "8,16,24,32", "--minutes", "3"], "--minutes has no effect"),
        (&["scaling", "run", "--resume", "--out", "x", "--epochs", "2"], "--epochs has no effect"),
        (
            &["data", "show", "x", "--row", "1", "--count", "4"],
            "--count has no effect here: it takes effect without --row",
        ),
        (&["data", "show", "x", "--row", "1", "--start", "4"], "--start has no effect"),
        (
            &["data", "show", "x", "--tokenizer", "gpt2"],
            "--tokenizer has no effect here: it takes effect with --row",
        ),
        (&["data", "show", "x", "--max-length", "9"], "--max-length has no effect"),
        (&["data", "show", "x", "--loss-on", "answer"], "--loss-on has no effect"),
        (&["chat", "--server", "http://127.0.0.1:1", "--exact"], "cannot be used with"),
        (&["chat", "--server", "http://127.0.0.1:1", "--cache-type", "f16"], "cannot be used with"),
    ] {
        assert_contains(&failure(args, 2), &[part]);
    }
}

/// The walk of a model says what that model computes.
#[test]
fn formulas_of_a_walk_are_those_of_the_model() {
    let place = Place::new();
    let formulas = |name: &str, config: Config| -> Vec<(String, String)> {
        let folder = place.model(name, Config { block_size: 16, n_embd: 8, ..config }, None);
        let seen = answer(&["inspect", &folder, "--ids", "1,2,3", "--walk"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        seen["walk"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| (text(&step["site"]), text(&step["formula"])))
            .collect()
    };
    let of = |steps: &[(String, String)], site: &str| {
        steps
            .iter()
            .find(|(known, _)| known == site)
            .unwrap_or_else(|| panic!("no {site} in {steps:?}"))
            .1
            .clone()
    };
    let plain = formulas("plain", small(16));
    assert_eq!(of(&plain, "block.0.attn.q"), "q = x W_q + b_q");
    assert_eq!(of(&plain, "logits"), "x wteᵀ");
    let bare = formulas("bare", Config { tie_word_embeddings: false, ..small(16).with_bias(false) });
    for (site, formula) in &bare {
        assert!(!formula.contains("+ b"), "{site}: {formula}");
    }
    assert_eq!(of(&bare, "logits"), "x W_Uᵀ");
    assert_eq!(of(&bare, "ln_f"), "(x − mean) / √(variance + ε) · g");
    let rotary = formulas(
        "rotary",
        Config {
            position_embedding: minigpt_model::PositionEmbedding::Rope,
            lm_head_bias: true,
            tie_word_embeddings: false,
            ..small(16)
        },
    );
    assert_eq!(of(&rotary, "block.0.attn.k"), "k = R_p · (x W_k + b_k)");
    assert_eq!(of(&rotary, "logits"), "x W_Uᵀ + b_U");
    let post = formulas(
        "post",
        Config {
            norm_position: minigpt_model::NormPosition::Post,
            position_embedding: minigpt_model::PositionEmbedding::Sinusoidal,
            activation_function: minigpt_model::Activation::Relu,
            ..small(16)
        },
    );
    assert_eq!(of(&post, "embed.position"), "sin and cos of p");
    assert_eq!(of(&post, "block.0.mlp.post"), "max(h, 0)");
    assert!(post.iter().all(|(site, _)| site != "ln_f"), "{post:?}");
}

#[test]
fn a_walk_to_the_likeliest_token_draws_nothing() {
    let folder = fixture("gpt2");
    let sites = |options: &[&str]| -> Vec<String> {
        let seen = answer(&[&["inspect", &folder, "--ids", "1,2,3", "--walk"], options].concat());
        seen["walk"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["site"].as_str().unwrap().to_owned())
            .collect()
    };
    let greedy = sites(&["--temperature", "0"]);
    assert!(!greedy.iter().any(|site| site.starts_with("logits.") || site == "probabilities"), "{greedy:?}");
    assert!(!sites(&[]).contains(&"logits.filtered".to_owned()));
    assert!(sites(&["--top-k", "2"]).contains(&"logits.filtered".to_owned()));
    let note = minigpt(&["inspect", &folder, "--ids", "1,2", "--walk", "--temperature", "0", "--top-k", "2"])
        .run()
        .success();
    assert_contains(note.stderr(), &["the most likely token: --top-k"]);
}

#[test]
fn a_number_that_is_none_is_refused_by_its_option() {
    let folder = fixture("gpt2");
    let lines: &[(&[&str], &str)] = &[
        (
            &["generate", &folder, "--ids", "1", "--temperature", "nan"],
            "invalid value 'nan' for '--temperature <T>': expected a number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--temperature", "-NaN"],
            "invalid value '-NaN' for '--temperature <T>': expected a number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--top-p", "inf"],
            "invalid value 'inf' for '--top-p <P>': expected a number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--min-p=-inf"],
            "invalid value '-inf' for '--min-p <P>': expected a number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--temperature", ""],
            "invalid value '' for '--temperature <T>': expected a number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--top-k", ""],
            "invalid value '' for '--top-k <K>': expected a whole number",
        ),
        (
            &["generate", &folder, "--ids", "1", "--length-penalty", "1e999"],
            "invalid value '1e999' for '--length-penalty <X>': too large",
        ),
        (
            &["scaling", "predict", "x.csv", "--flops", "1e400"],
            "invalid value '1e400' for '--flops <N>': too large",
        ),
        (&["scaling", "predict", "x.csv", "--flops", "-1"], "expected a number above 0"),
        (&["scaling", "plan", "x.txt", "--minutes", "-1"], "expected a number above 0"),
        (
            &["scaling", "plan", "x.txt", "--minutes", "nan"],
            "invalid value 'nan' for '--minutes <N>': expected a number",
        ),
        (
            &["plan", "gpt2", "--flops-per-second", "inf"],
            "invalid value 'inf' for '--flops-per-second <RATE>': expected a number",
        ),
        (
            &["inspect", &folder, "--ids", "1", "--threads", "nan"],
            "invalid value 'nan' for '--threads <N>': expected a whole number",
        ),
        (&["inspect", &folder, "--ids", "1", "--threads", "0"], "expected 1 or more threads"),
        (
            &["bench", "train", "--dropout", "nan"],
            "invalid value 'nan' for '--dropout <P>': expected a number",
        ),
        (
            &["eval", "x", "--data", "y", "--part", "val", "--val-fraction", "nan"],
            "invalid value 'nan' for '--val-fraction <X>': expected a number",
        ),
        (
            &["train", "x.txt", "--minutes", "inf"],
            "invalid value 'inf' for '--minutes <N>': expected a number",
        ),
        (
            &["inspect", &folder, "--ids", "1", "--walk", "--temperature", "NaN"],
            "invalid value 'NaN' for '--temperature <T>': expected a number",
        ),
    ];
    for (args, part) in lines {
        assert_contains(&failure(args, 2), &[part]);
    }
    for (option, value, part) in [
        ("--temperature", "5000", "temperature must be from 0 (greedy) to 100, but is 5000"),
        ("--temperature", "-1", "temperature must be from 0"),
        ("--repetition-penalty", "1e300", "repetition_penalty must be from 0.01 to 100"),
        ("--top-p", "0", "top_p must be above 0"),
    ] {
        assert_contains(&failure(&["generate", &folder, "--ids", "1", option, value], 1), &[part]);
    }
}

#[test]
fn options_of_a_draw_without_a_draw_are_said_or_refused() {
    let folder = fixture("gpt2");
    let run = |options: &[&str]| {
        minigpt(&[&["generate", &folder, "--ids", "1,2", "-n", "2"], options].concat()).run()
    };
    let note = run(&["--temperature", "0", "--top-p", "0.5", "--seed", "3"]).success();
    assert_contains(
        note.stderr(),
        &["without effect at temperature 0, which always takes the most likely token: --top-p, --seed"],
    );
    assert!(!run(&["--temperature", "0.5", "--top-p", "0.5"]).success().stderr().contains("without effect"));
    let refused = run(&["--num-beams", "3", "--temperature", "0.7", "--top-k", "3"]).code(1);
    assert_contains(refused.stderr(), &["--temperature, --top-k and num_beams 3: beam search"]);
    assert_contains(
        run(&["--length-penalty", "2"]).code(1).stderr(),
        &["length_penalty 2 only takes effect with beam search"],
    );
    assert_contains(
        run(&["--compare", "num_beams=2,temperature=0.5"]).code(1).stderr(),
        &["--compare num_beams=2, temperature=0.5: temperature and num_beams 2"],
    );
    let explained = run(&["--compare", "num_beams=2", "--explain"]).code(1);
    assert_contains(explained.stderr(), &["--explain shows how tokens are chosen one by one"]);
    assert_contains(run(&["--stop-id", "99999"]).code(1).stderr(), &["--stop-id 99999 can never occur"]);
    run(&["--num-beams", "2", "--length-penalty", "2", "--temperature", "0"]).success();
}

/// A window of penalties without a penalty, and exact products of matrices that are not quantised.
#[test]
fn options_without_effect_on_this_text_or_this_model_are_said() {
    let place = Place::new();
    let folder = model(&place, "model");
    let said = |args: &[&str]| minigpt(args).stdin("你好\n").run().success().stderr().to_owned();
    let window = "repeat_last_n has no effect without repetition_penalty";
    let generate = ["generate", &folder, "--prompt", "你", "-n", "2"];
    let with = |options: &[&str]| said(&[&generate, options].concat());
    assert_contains(
        &with(&["--repeat-last-n", "5"]),
        &["--repeat-last-n has no effect without repetition_penalty"],
    );
    assert!(!with(&["--repeat-last-n", "5", "--presence-penalty", "1"]).contains("no effect"));
    assert_contains(&said(&["chat", &folder, "--set", "repeat_last_n=4"]), &[window]);
    assert!(
        !said(&["chat", &folder, "--set", "repeat_last_n=4", "--set", "presence_penalty=1"]).contains(window)
    );
    assert_contains(&with(&["--exact"]), &["--exact has no effect", "not quantized"]);
    assert!(!with(&["--exact", "--dtype", "q8_0"]).contains("no effect"));
}

#[test]
fn settings_of_a_chat_are_checked_as_options_are() {
    let place = Place::new();
    let folder = model(&place, "model");
    let typed = "/set temp 5000\n/set top_p nan\n/set min_p 2\n/set max_new_tokens 1e1\n/set top_k 5\n/set seed random\n\
                 /set temperature 0.5\n/set top_k 6\n/reset now\n/quit now\n/set stop a  b\n/show\n";
    let done = minigpt(&["chat", &folder]).stdin(typed).run().success();
    assert_contains(
        done.stderr(),
        &[
            "temperature must be from 0 (greedy) to 100, but is 5000",
            "top_p is nan; it must be a number",
            "min_p must be from 0 to 1",
            "max_new_tokens is 1e1",
            "the most likely token: top_k",
            "seed is ",
            "top_k is 6",
            "/reset takes no argument",
            "/quit takes no argument",
            "\"a  b\"",
        ],
    );
    assert_eq!(done.stderr().matches("the most likely token: top_k").count(), 1, "{}", done.stderr());
}

/// What is typed while an answer is written is read when it is done.
#[cfg(unix)]
#[test]
fn lines_typed_ahead_in_a_chat_are_kept() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    let place = Place::new();
    let folder = model(&place, "model");
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || Stdio::from(std::fs::File::options().read(true).write(true).open(&name).unwrap());
    let mut controller = std::fs::File::from(controller);
    // All at once, before the program reads the first line.
    controller.write_all("abc\n/set top_k 11\n你好\n/set top_k 12\n/quit\n".as_bytes()).unwrap();
    let mut child = end_with_test(&mut Command::new(env!("CARGO_BIN_EXE_minigpt")))
        .args(["chat", &folder])
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "xterm")
        .env("XDG_STATE_HOME", place.path("state"))
        .stdin(terminal())
        .stdout(terminal())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A terminal that nobody reads would stop the program.
    let mut shown = controller.try_clone().unwrap();
    thread::spawn(move || while shown.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {});
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    let (send, done) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let _ = stderr.read_to_string(&mut said);
        let _ = send.send(());
        said
    });
    // A program that has lost /quit waits for ever.
    let ended = done.recv_timeout(std::time::Duration::from_secs(120)).is_ok();
    let _ = child.kill();
    child.wait().unwrap();
    let said = reader.join().unwrap();
    assert!(ended, "/quit was lost: {said}");
    assert_contains(&said, &["top_k is 11", "top_k is 12"]);
}

/// The commands that a message suggests: in backticks, or a line of a table that begins with the program's name.
fn suggested(said: &str) -> Vec<String> {
    let quoted = said.split('`').skip(1).step_by(2).filter(|part| part.starts_with("minigpt "));
    let lines = said
        .lines()
        .filter_map(|line| Some(&line[line.find("minigpt ")?..]))
        .filter(|line| !line.contains('`'));
    quoted.chain(lines).map(str::to_owned).collect()
}

/// The program under a shell, as a person pastes a command.
#[cfg(unix)]
fn pasted(place: &Place, command: &str) -> (bool, String) {
    let script =
        format!("minigpt() {{ '{}' \"$@\"; }}; {command} < /dev/null", env!("CARGO_BIN_EXE_minigpt"));
    let done = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .env("LC_ALL", "C")
        .env_remove("MINIGPT_API_KEY")
        .output()
        .unwrap();
    (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// What a run suggests at its end works when it is pasted, whatever its folder and its prompt are called.
#[cfg(unix)]
#[test]
fn suggested_commands_work_when_they_are_pasted() {
    for (folder, prompt) in [
        ("runs/plain", "你好"),
        ("my run's", "---"),
        ("-dash", "it's \"$HOME\" *"),
        ("西游记 一", "-a b"),
        ("runs/none", "喜欢"),
    ] {
        let place = Place::new();
        let text = "你好吗我很好.abc it's \"$HOME\" * -a b --- ".repeat(40);
        place.write("text.txt", text);
        let (out, sample) =
            (format!("--out={folder}"), format!("sample.prompt=\"{}\"", prompt.replace('"', "\\\"")));
        let settings = [
            "--set",
            "train.max_iters=2",
            "--set",
            "model.n_layer=1",
            "--set",
            "model.n_embd=8",
            "--set",
            "model.n_head=1",
            "--set",
            "model.block_size=16",
            "--set",
            "train.batch_size=2",
            "--set",
            "data.tokenizer=char",
            "--set",
            &sample,
            "--quiet",
        ];
        let args = [&["train", "text.txt", &out], &settings[..]].concat();
        let done = minigpt(&args).within(&place.path("")).run().success();
        let commands = suggested(&format!("{}\n{}", done.stdout(), done.stderr()));
        assert!(commands.len() >= 3, "{commands:?} of {}{}", done.stdout(), done.stderr());
        for command in commands {
            let command =
                if command.starts_with("minigpt generate") { format!("{command} -n 3") } else { command };
            let (worked, why) = pasted(&place, &command);
            assert!(worked, "{command}: {why}");
        }
    }
}

/// Errors that suggest a command for a folder or a file quote its name.
#[cfg(unix)]
#[test]
fn commands_in_errors_name_files_as_a_shell_takes_them() {
    let place = Place::new();
    model(&place, "my model");
    let error = minigpt(&["train", "my model"]).within(&place.path("")).run().code(1);
    assert_contains(error.stderr(), &["`minigpt train novel.txt --from 'my model'`"]);
    let error = minigpt(&["train", "my data/shakespeare.txt"]).within(&place.path("")).run().code(1);
    assert_contains(error.stderr(), &["--out 'my data'"]);
}

/// Running text has no answers, and data in one part has no other.
#[test]
fn options_that_say_nothing_about_the_data_are_refused() {
    let place = Place::new();
    let folder = model(&place, "model");
    let text = place.write("text.txt", "你好吗 abc.\n".repeat(20));
    let lines = place.write("qa.jsonl", "{\"question\":\"你好吗\",\"answer\":\"我很好\"}\n".repeat(20));
    let eval = |data: &str, options: &[&str]| -> Vec<String> {
        [&["eval", &folder, "--data", data], options].concat().iter().map(|&word| word.to_owned()).collect()
    };
    let show = |data: &str, options: &[&str]| -> Vec<String> {
        [&["data", "show", data], options].concat().iter().map(|&word| word.to_owned()).collect()
    };
    for (args, part) in [
        (eval(&text, &["--loss-on", "answer"]), "--loss-on has no effect"),
        (eval(&text, &["--part", "val", "--seed", "3"]), "--seed has no effect"),
        (
            eval("builtin", &["--part", "val", "--seed", "3"]),
            "--seed has no effect: builtin is already split",
        ),
        (eval("builtin", &["--part", "val", "--val-fraction", "0.3"]), "--val-fraction has no effect"),
        (show(&text, &["--part", "val"]), "text.txt has no validation part"),
        (show(&text, &["--part", "val", "--row", "1"]), "text.txt has no validation part"),
        (show(&text, &["--row", "1", "--loss-on", "answer"]), "is plain text, which has no answers"),
        (show(&text, &["--row", "1", "--max-length", "0"]), "--max-length is 0"),
        (show(&lines, &["--part", "val"]), "qa.jsonl has no validation part"),
        (show(&lines, &["--part", "val", "--row", "1"]), "qa.jsonl has no validation part"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_contains(&failure(&args, 1), &[part]);
    }
    for args in [
        eval(&text, &["--part", "val", "--val-fraction", "0.5"]),
        eval(&lines, &["--part", "val", "--seed", "3", "--loss-on", "answer"]),
        show("builtin", &["--part", "val"]),
        show(&lines, &["--part", "train"]),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        minigpt(&args).run().success();
    }
}
