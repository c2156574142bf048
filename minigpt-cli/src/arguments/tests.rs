//! What is typed, and what clap sees of it.

use super::*;

fn rewritten(line: &str) -> String {
    rewritten_words(&line.split(' ').collect::<Vec<_>>())
}

fn rewritten_words(words: &[&str]) -> String {
    let command = Cli::command();
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let words = rewrite(&command, &words).unwrap_or_else(|e| panic!("{words:?}: {e}")).words;
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn refused(line: &str) -> String {
    match parse(line.split(' ').map(OsString::from)) {
        Ok(_) => panic!("{line} was understood"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_main_input_may_be_named_by_its_older_option() {
    for (typed, seen) in [
        ("m generate --model runs/a --prompt x", "m generate --prompt=x -- runs/a"),
        ("m eval --data a --model=b", "m eval --data=a -- b"),
        ("m data prepare --input - --out x", "m data prepare --out=x -- -"),
        ("m tokenizer encode --text -x --json", "m tokenizer encode --json -- -x"),
        ("m chat runs/a", "m chat runs/a"),
        ("m run -m runs/a -n 5 who are you", "m run -n=5 -- runs/a who are you"),
        ("m run who --model=runs/a -- --are you", "m run -- runs/a who --are you"),
        ("m run runs/a -- --who", "m run runs/a -- --who"),
        ("m generate --out_dir=out --start=x --num_samples=2", "m generate --start=x --num-samples=2 -- out"),
        (
            "m generate --init_from=resume --out_dir=out --start=FILE:p.txt --compile=False --dtype=bfloat16",
            "m generate --prompt-file=p.txt --dtype=bfloat16 -- out",
        ),
        (
            "m generate --init_from=gpt2-xl --out_dir=out --start=x --device=cuda:0",
            "m generate --start=x --device=cuda -- hf:openai-community/gpt2-xl",
        ),
        ("m generate a --do_sample=False --prompt x", "m generate a --temperature=0 --prompt=x"),
        ("m tokenizer encode --model a", "m tokenizer encode --model=a"),
    ] {
        assert_eq!(rewritten(typed), seen);
    }
}

#[test]
fn a_text_that_begins_with_a_dash_is_a_value() {
    let words = ["m", "generate", "a", "--prompt", "-5 degrees", "--prompt", ""].map(OsString::from);
    let rewritten = rewrite(&Cli::command(), &words).unwrap().words;
    assert_eq!(rewritten[3..], ["--prompt=-5 degrees", "--prompt="].map(OsString::from));
    assert!(parse(words).is_ok());
    for text in ["---", "-->", "-你好", "-5x", "--- x"] {
        for words in [vec!["m", "generate", "a", "--prompt", text], vec!["m", "run", "a", text, "b"]] {
            assert!(parse(words.into_iter().map(OsString::from)).is_ok(), "{text}");
        }
    }
    assert_eq!(rewritten_words(&["m", "run", "a", "---", "b", "-n", "5"]), "m run a -n=5 -- --- b");
    assert!(refused("m run a --prompt --foo").contains("--foo"));
}

#[test]
fn numbers_are_taken_as_people_write_them() {
    assert_eq!(
        rewritten("m generate a --max-new-tokens 1e3 --top-k=1_000 --temperature -1"),
        "m generate a --max-new-tokens=1000 --top-k=1000 --temperature=-1"
    );
    for (line, part) in [
        ("m generate a --top-k 1.5", "--top-k is 1.5: a whole number is needed"),
        ("m generate a --top-k -1", "--top-k is -1: a whole number is needed, 0 or more"),
        ("m generate a --seed never", "--seed is never: a whole number is needed, or the word random"),
        ("m plan gpt2 --batch-size 0", "1..="),
    ] {
        let error = refused(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn a_random_seed_is_drawn_and_said() {
    let understood = parse(["m", "generate", "a", "--seed", "random"].map(OsString::from)).unwrap();
    assert!(understood.notes[0].starts_with("the seed that was drawn: "), "{:?}", understood.notes);
    let command = Cli::command();
    let words = ["m", "train", "--config", "a", "--seed=random"].map(OsString::from);
    let rewritten = rewrite(&command, &words).unwrap();
    let set = rewritten.words.last().unwrap().to_str().unwrap();
    let seed = set.strip_prefix("--set=train.seed=").unwrap();
    assert!(seed.parse::<u32>().is_ok() && rewritten.notes[0].ends_with(seed), "{:?}", rewritten.notes);
}

#[test]
fn what_sample_py_can_not_mean_here_is_refused_with_what_can() {
    for (line, part) in [
        ("m generate a --max_length 50", "say --max-new-tokens"),
        ("m generate --init_from=scratch --start=x", "it is resume, gpt2"),
    ] {
        let error = refused(line);
        assert!(error.contains(part), "{line}: {error}");
    }
    for dtype in ["float32", "Q8_0", "BFloat16", "f16"] {
        parse(["m", "generate", "a", "--dtype", dtype].map(OsString::from)).unwrap();
    }
}

#[test]
fn a_data_set_of_nanogpts_is_the_data() {
    assert_eq!(
        rewritten("m train --dataset=none --max_iters=3"),
        "m train data/none --set=train.max_iters=3"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    assert_eq!(rewritten(&format!("m train --dataset={path}")), format!("m train {path}"));
    assert!(refused("m train a.txt --dataset=b").contains("one file or one folder"));
}

#[test]
fn nanogpts_options_are_settings_of_a_run() {
    for (typed, seen) in [
        (
            "m train --config a --max_iters=20 --dropout=0.0",
            "m train --config=a --set=train.max_iters=20 --set=model.dropout=0.0",
        ),
        ("m train --config a --max-iters 20 --quiet", "m train --config=a --set=train.max_iters=20 --quiet"),
        ("m train --config a --init_from=resume --eval_only", "m train --config=a --resume --eval-only"),
        ("m train --config a --init_from=scratch", "m train --config=a"),
        ("m train --config a --init_from=gpt2-xl", "m train --config=a --from=hf:openai-community/gpt2-xl"),
        (
            "m train --config a --out_dir=out --bias False",
            "m train --config=a --out=out --set=model.bias=false",
        ),
        (
            "m train --config a --decay_lr=False",
            "m train --config=a --set=train.lr_decay=constant --set=train.warmup_iters=0",
        ),
        ("m train --config a --max_minutes=2", "m train --config=a --max-minutes=2"),
        (
            "m train --config a --set n_layer=2 --set max_iters=1e3",
            "m train --config=a --set=model.n_layer=2 --set=train.max_iters=1e3",
        ),
        (
            "m train --config a --device=cpu --compile=False --wandb_log=False",
            "m train --config=a --device=cpu",
        ),
    ] {
        assert_eq!(rewritten(typed), seen);
    }
    assert_eq!(
        rewritten("m train a --output_dir=b --max_steps 9 --model_name_or_path=c"),
        "m train a --out=b --set=train.max_iters=9 --from=c"
    );
    let words = ["m", "train", "a", "--lr=1e-3"].map(OsString::from);
    assert_eq!(parse(words).unwrap().notes, ["lr is called learning_rate here"]);
    for (line, part) in [
        ("m train --config a --max_iter=3", "did you mean --max_iters?"),
        ("m train --config a --max_iters", "--max_iters needs a value"),
        ("m train --config a --resum", "did you mean --resume?"),
        ("m train --config a --foo=3", "--foo; `minigpt train --help` shows"),
        ("m train --config a --init_from=best", "resume, scratch, gpt2"),
        ("m train config/train_shakespeare_char.py", "--config shakespeare-nanogpt"),
    ] {
        let error = refused(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn what_has_no_effect_here_is_said() {
    for option in [
        "--wandb_log=True",
        "--compile=True",
        "--dtype=bfloat16",
        "--backend=nccl",
        "--always_save_checkpoint=True",
    ] {
        let words = ["m", "train", "--config", "a", option].map(OsString::from);
        let rewritten = rewrite(&Cli::command(), &words).unwrap();
        assert_eq!((rewritten.words.len(), rewritten.notes.len()), (3, 1), "{option}");
        let name = option.split('=').next().unwrap().trim_start_matches('-');
        assert!(rewritten.notes[0].starts_with(name), "{:?}", rewritten.notes);
    }
}

#[test]
fn an_option_that_nobody_has_is_answered_with_a_near_one_if_there_is_one() {
    for (line, part) in [
        (
            "m run runs/a --server x",
            "`minigpt run` has no option --server; all of them: `minigpt run --help`",
        ),
        ("m run runs/a --temprature 1", "did you mean --temperature?"),
        ("m generate runs/a --top-k 5 --greedy", "--temperature 0 always takes the likeliest token"),
        ("m generate runs/a --max_new_token=3", "did you mean --max-new-tokens?"),
        ("m run runs/a -sys hello", "has no option -sys"),
        ("m data list --foo", "`minigpt data list` has no option --foo"),
    ] {
        let error = refused(line);
        assert!(error.contains(part), "{line}: {error}");
    }
    for line in
        ["m run runs/a -n5 hi", "m run a -phello", "m chat a -t2", "m serve a -c=64", "m serve --np 2 b"]
    {
        assert!(parse(line.split(' ').map(OsString::from)).is_ok(), "{line}");
    }
}

#[test]
fn llamas_options_that_need_nothing_here_are_said_and_left_out() {
    for (line, seen) in [
        ("m run a -ngl 99 -p hi", "m run a -p=hi"),
        ("m run a --n-gpu-layers=99 -cnv", "m run a"),
        ("m serve --mlock", "m serve"),
        ("m serve -ctk f16 -ctv f16", "m serve --cache-type=f16 --cache-type=f16"),
    ] {
        assert_eq!(rewritten(line), seen);
    }
    let words = ["m", "run", "a", "--verbose", "hi"].map(OsString::from);
    assert!(parse(words).unwrap().notes[0].starts_with("--verbose: "));
}

#[test]
fn a_command_that_nobody_has_is_answered_with_a_near_one_if_there_is_one() {
    assert!(refused("m dmo").contains("did you mean demo?"));
    assert!(refused("m cli").contains("there is no command cli; `minigpt --help` lists them"));
    assert!(refused("m --lang en trian x").contains("did you mean train?"));
    assert!(refused("m data lst").contains("there is no command data lst; did you mean list?"));
    assert!(refused("m config x").contains("`minigpt config --help`"));
    assert!(refused("m 训练").contains("minigpt train novel.txt"));
}

#[test]
fn commands_of_other_programs_are_answered_with_ours() {
    assert!(refused("m pull gpt2").contains("minigpt import hf:owner/name --out models/name"));
    assert!(refused("m sample").contains("minigpt generate"));
    assert_eq!(parse(["m", "quantize"].map(OsString::from)).err().unwrap().exit_code(), 2);
}

#[test]
fn data_to_judge_by_may_stand_behind_the_model() {
    assert_eq!(rewritten("m eval a b.txt"), "m eval a --data=b.txt");
    assert_eq!(rewritten("m eval b.txt --model a"), "m eval --data=b.txt -- a");
    assert_eq!(rewritten("m eval a --data b.txt"), "m eval a --data=b.txt");
    assert!(refused("m eval a").contains("--data"));
}

#[test]
fn several_files_to_learn_from_belong_into_a_folder() {
    assert!(refused("m train a.txt b.txt --minutes 1").contains("put a.txt, b.txt into a folder"));
    assert!(refused("m train a.txt --minutes soon").contains("--minutes is soon: a number is needed"));
}

/// It was "requires a subcommand": the first thing that a Chinese reader types.
#[test]
fn a_language_alone_asks_for_the_first_page() {
    for line in ["m --lang en", "m --lang=en", "m config --lang en"] {
        assert!(refused(line).contains("Commands:"), "{line}");
    }
}
