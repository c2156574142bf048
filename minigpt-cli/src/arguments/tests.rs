//! What is typed, and what becomes of it.

use super::*;
use crate::Command as Chosen;

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

/// The arguments that a line gives, as `id=value`, sorted.
fn given(words: &[OsString]) -> Vec<String> {
    let Matched { matches, .. } = matched(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let inner = of_command(&matches);
    let ids =
        inner.ids().map(clap::Id::as_str).filter(|id| !id.starts_with(|c: char| c.is_ascii_uppercase()));
    let typed = ids.filter(|id| inner.value_source(id) == Some(clap::parser::ValueSource::CommandLine));
    let mut given: Vec<String> = typed
        .filter(|id| !["input", "text"].contains(id) || inner.try_get_raw(id).is_ok())
        .flat_map(|id| {
            let values: Vec<String> = inner
                .get_raw(id)
                .into_iter()
                .flatten()
                .map(|value| value.to_string_lossy().into_owned())
                .collect();
            values.into_iter().map(move |value| format!("{id}={value}"))
        })
        .collect();
    given.sort();
    given
}

fn parsed(line: &str) -> Parsed {
    parse(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    match parse(words(line)) {
        Ok(_) => panic!("{line} was accepted"),
        Err(error) => error.to_string(),
    }
}

fn assert_same(typed: &str, plain: &str) {
    assert_eq!(given(&words(typed)), given(&words(plain)), "{typed} is not {plain}");
}

fn assert_refused(lines: &[(&str, &str)]) {
    for (line, part) in lines {
        let error = refused(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn the_main_input_may_be_named_by_an_option() {
    for (typed, plain) in [
        ("m generate --model runs/a --prompt x", "m generate runs/a --prompt x"),
        ("m eval --data a --model=b", "m eval b --data a"),
        ("m data prepare --input - --out x", "m data prepare - --out x"),
        ("m tokenizer encode --text -x --json", "m tokenizer encode --json -- -x"),
        ("m run -m runs/a -n 5 who are you", "m run runs/a who are you -n 5"),
        ("m run who --model=runs/a -- --are you", "m run runs/a who -- --are you"),
        ("m generate --out_dir=out --start=x --num_samples=2", "m generate out --start x --num-samples 2"),
        ("m generate --out-dir out --prompt x", "m generate out --prompt x"),
    ] {
        assert_same(typed, plain);
    }
    assert_eq!(given(&words("m tokenizer encode --model a")), ["model=a"]);
}

#[test]
fn settings_of_sample_py_are_understood() {
    let generate = |line: &str| match parsed(line).cli.command {
        Chosen::Generate(args) => args,
        _ => panic!("{line}"),
    };
    let args = generate(
        "m generate --init_from=resume --out_dir=out --start=FILE:p.txt --compile=False --dtype=bfloat16",
    );
    assert_eq!((args.model.model.to_str(), args.prompt_file.unwrap().to_str()), (Some("out"), Some("p.txt")));
    let line = "m generate --init_from=gpt2-xl --out_dir=out --start=x --device=cuda:0";
    let args = generate(line);
    assert_eq!(
        (args.model.model.to_str(), &args.prompt[..]),
        (Some("hf:openai-community/gpt2-xl"), &["x".to_owned()][..])
    );
    assert!(parsed(line).notes[0].contains("out_dir"));
    assert_eq!(
        generate("m generate --init_from gpt2 --prompt x").model.model.to_str(),
        Some("hf:openai-community/gpt2")
    );
    assert!(
        generate("m generate a --do_sample=False --prompt x")
            .sampling
            .of_a_draw()
            .iter()
            .all(|(_, given)| !given)
    );
    assert_refused(&[
        ("m generate a --max_length 50", "use --max-new-tokens"),
        ("m generate --init_from=scratch --start=x", "it is resume, gpt2"),
        (
            "m generate a --do_sample=False --temperature 0.5 --prompt x",
            "'--do_sample=False' cannot be used with",
        ),
    ]);
    for dtype in ["float32", "Q8_0", "BFloat16", "f16"] {
        parsed(&format!("m generate a --dtype {dtype}"));
    }
}

#[test]
fn a_text_that_begins_with_a_dash_is_a_value() {
    for text in ["---", "-->", "-你好", "-5x", "--- x", "-5 degrees", ""] {
        let typed = ["m", "generate", "a", "--prompt", text].map(OsString::from).to_vec();
        assert_eq!(given(&typed), ["model=a".to_owned(), format!("prompt={text}")]);
        let typed = ["m", "run", "a", text, "b", "-n", "5"].map(OsString::from).to_vec();
        let words = [format!("words={text}"), "words=b".to_owned()];
        let mut want = ["max_new_tokens=5".to_owned(), "model=a".to_owned()]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>();
        want.sort();
        assert_eq!(given(&typed), want);
    }
    assert!(
        refused("m run a --prompt --foo").contains("--foo")
            || refused("m run a --prompt --foo").contains("--prompt")
    );
}

#[test]
fn numbers_are_taken_as_people_write_them() {
    let Chosen::Generate(args) =
        parsed("m generate a --max-new-tokens 1e3 --top-k=1_000 --temperature -1").cli.command
    else {
        panic!("another command")
    };
    let mut config = minigpt_generate::GenerationConfig::default();
    args.sampling.apply(&mut config);
    assert_eq!((config.max_new_tokens, config.top_k, config.temperature), (1000, 1000, -1.0));
    assert_refused(&[
        ("m generate a --top-k 1.5", "'1.5' for '--top-k <K>': expected a whole number"),
        ("m generate a --top-k -1", "'-1' for '--top-k <K>': expected a whole number, 0 or more"),
        ("m generate a --seed never", "expected a whole number or `random`"),
        ("m plan gpt2 --batch-size 0", "expected 1 or more"),
        ("m serve --parallel 2000", "expected a number from 1 to 1024"),
        ("m serve --port 1e6", "too large"),
    ]);
}

/// Options of every command that take a number, by their parsers.
#[test]
fn every_number_may_have_an_exponent_or_underscores() {
    fn walk(command: &Command, numbers: &mut usize) {
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let kind = arg.get_value_parser().type_id();
            let whole =
                [std::any::TypeId::of::<u16>(), std::any::TypeId::of::<u32>(), std::any::TypeId::of::<u64>()];
            if whole.iter().any(|whole| kind == *whole) || kind == std::any::TypeId::of::<usize>() {
                let alone = Command::new("x")
                    .arg(Arg::new("n").long("n").value_parser(arg.get_value_parser().clone()));
                for number in ["1e1", "1_0"] {
                    let parsed = alone.clone().try_get_matches_from(["x", "--n", number]);
                    assert!(parsed.is_ok(), "{} {arg}: {}", command.get_name(), parsed.unwrap_err());
                }
                *numbers += 1;
            }
        }
        command.get_subcommands().for_each(|sub| walk(sub, numbers));
    }
    let mut numbers = 0;
    walk(&program(&[]), &mut numbers);
    assert!(numbers > 50, "{numbers}");
}

#[test]
fn a_random_seed_is_drawn_and_noted() {
    let notes = parsed("m generate a --seed random").notes;
    assert!(notes[0].starts_with("random seed: "), "{notes:?}");
    for line in ["m train --config a --seed=random", "m train --config a --set train.seed=random"] {
        let Parsed { cli, notes } = parsed(line);
        let Chosen::Train(args) = cli.command else { panic!("{line}") };
        let (_, seed) = args.changes[0].split_once("seed=").unwrap();
        assert!(seed.parse::<u32>().is_ok() && notes[0].ends_with(seed), "{:?} {notes:?}", args.changes);
    }
}

#[test]
fn a_data_set_of_nanogpts_is_the_data() {
    let data = |line: &str| match parsed(line).cli.command {
        Chosen::Train(args) => args.data.unwrap().display().to_string(),
        _ => panic!("{line}"),
    };
    assert_eq!(data("m train --dataset=none --max_iters=3"), "data/none");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    assert_eq!(data(&format!("m train --dataset={path}")), path);
    assert!(refused("m train a.txt --dataset=b").contains("cannot be used with"));
}

#[test]
fn nanogpts_options_are_settings_of_a_run() {
    let train = |line: &str| match parsed(line).cli.command {
        Chosen::Train(args) => args,
        _ => panic!("{line}"),
    };
    for (typed, changes) in [
        ("m train --config a --max_iters=20 --dropout=0.0", &["max_iters=20", "dropout=0.0"][..]),
        ("m train --config a --max-iters 20 --quiet", &["max_iters=20"]),
        (
            "m train --config a --set n_layer=2 --n_layer=3 --set max_iters=1e3",
            &["n_layer=2", "n_layer=3", "max_iters=1e3"],
        ),
        ("m train --config a --out_dir=out --bias False", &["bias=false"]),
        ("m train --config a --decay_lr=False", &["train.lr_decay=constant", "train.warmup_iters=0"]),
        ("m train --config a --init_from=scratch --device=cpu --compile=False --wandb_log=False", &[]),
        ("m train a --output_dir=b --max_steps 9 --model_name_or_path=c", &["max_iters=9"]),
    ] {
        assert_eq!(train(typed).changes, changes, "{typed}");
        let notes = parsed(typed).notes;
        assert!(notes.len() < 2, "{notes:?}");
    }
    assert!(train("m train --config a --init_from=resume --eval_only=True").resume);
    assert!(train("m train --config a --resume=True --eval_only").resume);
    assert!(!train("m train --config a --resume=False").resume);
    assert_eq!(
        train("m train --config a --init_from=gpt2-xl").from.unwrap().to_str(),
        Some("hf:openai-community/gpt2-xl")
    );
    assert_same("m train --config a --max_minutes=2", "m train --config a --max-minutes 2");
    assert_eq!(parsed("m train a --lr=1e-3").notes, ["lr is called learning_rate here"]);
    assert_refused(&[
        ("m train --config a --max_iter=3", "'--max_iters'"),
        ("m train --config a --max_iters", "a value is required for '--max_iters"),
        ("m train --config a --resum", "'--resume'"),
        ("m train --config a --foo=3", "--foo"),
        ("m train --config a --init_from=best", "resume, scratch, gpt2"),
        ("m train config/train_shakespeare_char.py", "--config shakespeare-nanogpt"),
    ]);
}

#[test]
fn options_without_effect_are_noted() {
    for option in [
        "--wandb_log=True",
        "--compile",
        "--dtype=bfloat16",
        "--backend=nccl",
        "--always_save_checkpoint=False",
    ] {
        let notes = parsed(&format!("m train --config a {option}")).notes;
        let name = option.split('=').next().unwrap();
        assert!(notes.len() == 1 && notes[0].starts_with(name), "{option}: {notes:?}");
    }
    for (line, notes) in [
        ("m run a -ngl 99 -p hi", &["--n-gpu-layers: "][..]),
        ("m run a --n-gpu-layers=99 -cnv", &["--n-gpu-layers: ", "--conversation: "]),
        ("m serve --mlock", &["--mlock: "]),
        ("m run a --verbose hi", &["--verbose: "]),
        ("m run a -i", &["--conversation: "]),
        ("m run a -no-cnv hi", &["--no-conversation: "]),
    ] {
        let said = parsed(line).notes;
        assert!(
            said.len() == notes.len() && said.iter().zip(notes).all(|(said, note)| said.starts_with(note)),
            "{said:?}"
        );
    }
    assert_same("m serve -ctk f16 -ctv f16", "m serve --cache-type f16");
}

#[test]
fn an_unknown_option_is_answered_with_a_similar_one_or_a_tip() {
    assert_refused(&[
        ("m run runs/a --server x", "unexpected argument '--server'"),
        ("m run runs/a --temprature 1", "'--temperature'"),
        ("m generate runs/a --top-k 5 --greedy", "--temperature 0 always takes the most likely token"),
        ("m generate runs/a --max_new_token=3", "'--max"),
        ("m run runs/a -sys hello", "has no option -sys"),
        ("m data list --foo", "unexpected argument '--foo'"),
        ("m train a.txt b.txt --minutes 1", "put several files into a folder"),
        ("m train a.txt --minutes soon", "'soon' for '--minutes <N>': expected a number"),
        ("m eval a", "--data"),
    ]);
    for line in
        ["m run runs/a -n5 hi", "m run a -phello", "m chat a -t2", "m serve a -c=64", "m serve --np 2 b"]
    {
        parsed(line);
    }
}

#[test]
fn an_unknown_command_is_answered_with_a_similar_one_or_a_tip() {
    assert_refused(&[
        ("m dmo", "'demo'"),
        ("m cli", "unrecognized subcommand 'cli'"),
        ("m --lang en trian x", "'train'"),
        ("m data lst", "'list'"),
        ("m config x", "--help"),
        ("m 训练", "minigpt train novel.txt"),
        ("m pull gpt2", "minigpt import hf:owner/name --out models/name"),
        ("m sample", "minigpt generate"),
    ]);
    assert_eq!(parse(words("m quantize")).err().unwrap().exit_code(), 2);
}

#[test]
fn data_to_evaluate_on_may_follow_the_model() {
    let data = |line: &str| match parsed(line).cli.command {
        Chosen::Eval(args) => args.data().display().to_string(),
        _ => panic!("{line}"),
    };
    for line in ["m eval a b.txt", "m eval b.txt --model a", "m eval a --data b.txt"] {
        assert_eq!(data(line), "b.txt", "{line}");
    }
}

/// The first thing that a Chinese reader types.
#[test]
fn a_language_alone_asks_for_the_first_page() {
    for line in ["m --lang en", "m --lang=en", "m config --lang en"] {
        assert!(refused(line).contains("Commands:"), "{line}");
    }
}
