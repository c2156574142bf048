//! Worked examples at the end of every command's help. A test parses each of them.

use crate::language;
use clap::Command;

/// A command and lines to type.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "",
        "minigpt demo
minigpt train novel.txt --minutes 5
minigpt generate runs/novel --prompt 'It was'
minigpt serve runs/demo --open",
    ),
    (
        "demo",
        "minigpt demo
minigpt demo --fresh --set train.epochs=2   # a new, shorter run",
    ),
    (
        "data",
        "minigpt data list
minigpt data download shakespeare
minigpt data stats data/shakespeare.txt",
    ),
    (
        "data list",
        "minigpt data list
minigpt data list --json",
    ),
    (
        "data download",
        "minigpt data download shakespeare
minigpt data download shakespeare --out texts",
    ),
    (
        "data prepare",
        "minigpt data prepare book.txt --out data/book
minigpt data prepare books/ --out data/books --tokenizer bpe:2000
cat *.txt | minigpt data prepare - --out data/all --tokenizer gpt2",
    ),
    (
        "data split",
        "minigpt data split questions.jsonl
minigpt data split questions.jsonl --ratio 0.8 --seed 7 --out data/qa",
    ),
    (
        "data show",
        "minigpt data show builtin
minigpt data show questions.jsonl --start 100 --count 10
minigpt data show questions.jsonl --row 1 --loss-on answer   # as the model sees it",
    ),
    (
        "data export",
        "minigpt data export builtin --out data/builtin
minigpt data export builtin --out questions.jsonl",
    ),
    (
        "data stats",
        "minigpt data stats data/shakespeare.txt
minigpt data stats questions.jsonl --max-length 128 --svg lengths.svg
minigpt data stats builtin --tokenizer bpe:2000",
    ),
    (
        "tokenizer",
        "minigpt tokenizer train book.txt --out tokenizers/book --vocab-size 2000
minigpt tokenizer encode 'Hello, world'
minigpt tokenizer decode 15496,11,995",
    ),
    (
        "tokenizer train",
        "minigpt tokenizer train book.txt --out tokenizers/book --vocab-size 2000
minigpt tokenizer train a.txt b.txt --out tokenizers/characters --kind char",
    ),
    (
        "tokenizer encode",
        "minigpt tokenizer encode 'Hello, world'
minigpt tokenizer encode '你好' --tokenizer tokenizers/book --json
minigpt tokenizer encode --model runs/demo/best < questions.txt",
    ),
    (
        "tokenizer decode",
        "minigpt tokenizer decode 15496,11,995
minigpt tokenizer encode 'Hello' | minigpt tokenizer decode",
    ),
    (
        "config",
        "minigpt config list
minigpt config show shakespeare-cpu
minigpt config settings train",
    ),
    (
        "config list",
        "minigpt config list
minigpt config list --json",
    ),
    (
        "config show",
        "minigpt config show shakespeare-cpu
minigpt config show qa-small > mine.toml   # edit it, then: train --config mine.toml",
    ),
    (
        "config settings",
        "minigpt config settings
minigpt config settings train
minigpt config settings max_iters --lang zh",
    ),
    (
        "train",
        "minigpt train novel.txt --minutes 5
minigpt train --config shakespeare-cpu --n_layer=6 --out runs/deeper
minigpt train --resume --out runs/novel
minigpt train book.txt --config gpt2-finetune --from models/gpt2",
    ),
    (
        "eval",
        "minigpt eval runs/demo/best --data builtin
minigpt eval runs/shakespeare-cpu/best --data data/shakespeare.txt --part val
minigpt eval models/gpt2 --data book.txt --limit 1e5 --json",
    ),
    (
        "generate",
        "minigpt generate runs/shakespeare-cpu/best --prompt 'ROMEO:'
minigpt generate models/gpt2 'Once upon a time' --temp 0.7 --seed random
minigpt generate models/gpt2 'The capital of France is' --explain -n 5
minigpt generate models/gpt2 --prompts prompts.txt --num-samples 3 --json",
    ),
    (
        "chat",
        "minigpt chat runs/demo
minigpt chat models/gpt2 --temp 0.7 --top-k 40
minigpt chat --server http://127.0.0.1:8080   # a model served by another program",
    ),
    (
        "serve",
        "minigpt serve --open
minigpt serve --model runs/demo --model gpt2=models/gpt2 --dtype q8_0
minigpt serve model.gguf --host 0.0.0.0 --api-key SECRET --log-format json",
    ),
    (
        "run",
        "minigpt run runs/demo
minigpt run runs/demo 'Who was the first person on the moon?'
minigpt run hf:openai-community/gpt2 'Once upon a time' -n 100 --temp 0.7
cat question.txt | minigpt run model.gguf",
    ),
    (
        "inspect",
        "minigpt inspect runs/demo/best --prompt '智利的首都是哪里？'
minigpt inspect runs/demo --prompt '智利的首都是哪里？<sep>' --walk
minigpt inspect models/gpt2 --prompt 'The cat sat' --lens --html inside.html
minigpt inspect runs/demo --heads --snapshots   # over the course of training",
    ),
    (
        "import",
        "minigpt import hf:openai-community/gpt2 --out models/gpt2
minigpt import nanoGPT/out-shakespeare-char/ckpt.pt --out models/shakespeare
minigpt import model.gguf --out models/mine",
    ),
    (
        "export",
        "minigpt export runs/demo/best --to hf --out exported/demo
minigpt export models/gpt2 --to gguf --dtype q8_0 --out gpt2-q8_0.gguf
minigpt export runs/shakespeare-cpu --to nanogpt --out out/ckpt.pt",
    ),
    (
        "bench",
        "minigpt bench limit
minigpt bench train gpt2 --batch-size 2
minigpt bench decode models/gpt2 --dtype q8_0",
    ),
    (
        "bench train",
        "minigpt bench train gpt2 --batch-size 2
minigpt bench train shakespeare-cpu --batch-size 12 --steps 50",
    ),
    (
        "bench decode",
        "minigpt bench decode gpt2
minigpt bench decode models/gpt2 --dtype q8_0 --max-new-tokens 64",
    ),
    (
        "bench prefill",
        "minigpt bench prefill gpt2 --prompt-length 256
minigpt bench prefill models/gpt2 --batch-size 4",
    ),
    (
        "bench limit",
        "minigpt bench limit
minigpt bench limit --json",
    ),
    (
        "scaling",
        "minigpt scaling run novel.txt --minutes 15
minigpt scaling predict runs/scaling-novel --parameters 1e6 --tokens 1e7",
    ),
    (
        "scaling plan",
        "minigpt scaling plan novel.txt --minutes 15
minigpt scaling plan novel.txt --flops 1e14 --json",
    ),
    (
        "scaling run",
        "minigpt scaling run novel.txt --minutes 15
minigpt scaling run --resume --out runs/scaling-novel
minigpt scaling run novel.txt --widths 16,24,40,56 --tokens 5e5",
    ),
    (
        "scaling fit",
        "minigpt scaling fit runs/scaling-novel
minigpt scaling fit --csv runs.csv --columns parameters=N,tokens=D,loss=loss",
    ),
    (
        "scaling predict",
        "minigpt scaling predict runs/scaling-novel --parameters 1e6 --tokens 1e7
minigpt scaling predict runs/scaling-novel --flops 1e14   # the best size for this budget",
    ),
    (
        "plan",
        "minigpt plan gpt2 gpt2-medium models/mine
minigpt plan --config shakespeare-cpu
minigpt plan gpt2 --batch-size 32 --machines 8 --network 10GbE
minigpt plan gpt2 --set n_layer=6 --batch-size 4 --tokens 1e9",
    ),
    (
        "plot",
        "minigpt plot runs/shakespeare-cpu
minigpt plot runs/* --out losses.svg --x time",
    ),
];

/// The program with examples in the help of each of its commands.
pub fn with_examples(program: Command) -> Command {
    add(program, "")
}

/// What separates an example from its comment.
const COMMENT: &str = "   # ";

/// The comments: the command, the number of the example, and the text.
#[cfg(test)]
pub fn comments() -> impl Iterator<Item = (&'static str, usize, &'static str)> {
    let numbered = EXAMPLES
        .iter()
        .flat_map(|(path, lines)| (1..).zip(lines.lines()).map(move |(n, line)| (*path, n, line)));
    numbered.filter_map(|(path, number, line)| Some((path, number, line.split_once(COMMENT)?.1)))
}

fn add(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        add(sub, path.trim_start())
    });
    let Some((_, lines)) = EXAMPLES.iter().find(|(name, _)| *name == path) else { return command };
    let before = command
        .get_after_help()
        .map_or_else(String::new, |help| format!("{}\n\n", help.to_string().trim_end()));
    let example = |(number, line): (usize, &'static str)| match line.split_once(COMMENT) {
        Some((typed, comment)) => {
            format!("  {typed}{COMMENT}{}", language::example_comment(path, number, comment))
        }
        None => format!("  {line}"),
    };
    let examples: Vec<String> = (1..).zip(lines.lines()).map(example).collect();
    command.after_help(format!("{before}{}\n{}", language::examples_heading(), examples.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, arguments, docs};
    use clap::CommandFactory;

    fn paths(command: &Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for sub in command.get_subcommands() {
            paths(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    #[test]
    fn every_command_has_examples_and_each_is_understood() {
        let mut commands = Vec::new();
        paths(&Cli::command(), "", &mut commands);
        for command in commands {
            let examples = EXAMPLES.iter().find(|(name, _)| *name == command);
            let (_, lines) = examples.unwrap_or_else(|| panic!("`minigpt {command}` has no examples"));
            assert!((2..=4).contains(&lines.lines().count()), "{command}: {lines}");
            assert!(lines.contains(&format!("minigpt {command}")), "{command}: {lines}");
            for line in lines.lines() {
                // In a terminal of 80 columns a line can be copied whole.
                let typed = line.split(COMMENT).next().unwrap();
                assert!(minigpt_charts::width(typed) <= 78, "{typed}");
            }
            for words in lines.lines().flat_map(docs::commands_of) {
                let typed = words.join(" ");
                let understood = arguments::parse(words.into_iter().map(Into::into));
                if let Err(error) = understood {
                    panic!("{typed}: {error}");
                }
            }
        }
    }

    #[test]
    fn the_help_ends_with_them() {
        let mut program = with_examples(Cli::command());
        let plan = program.find_subcommand_mut("plan").unwrap().render_help().to_string();
        assert!(plan.contains("Presets:") && plan.trim_end().ends_with("--tokens 1e9"), "{plan}");
    }
}
