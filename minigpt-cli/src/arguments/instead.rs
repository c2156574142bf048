//! Commands that other programs have, and what does it here.

/// What helps somebody who wants answers out of documents.
const SEARCH: &str = "minigpt trains and runs models and does not search documents. `minigpt train qa.jsonl` teaches a small model to \
    answer your own questions by heart, and `minigpt serve MODEL` gives a model to a search program of yours that speaks OpenAI's \
    interface";

/// A command of another program, and what to type instead.
const INSTEAD: &[(&str, &str)] = &[
    ("pull", "`minigpt import hf:owner/name --out models/name` fetches a model from the hub"),
    ("push", "`minigpt export MODEL --to hf --out FOLDER` writes a folder that Hugging Face's tools upload"),
    (
        "show",
        "`minigpt inspect MODEL --tensors` shows what a model is made of, `minigpt plan MODEL` what it takes",
    ),
    ("ps", "nothing runs in the background: a model is in memory while a command uses it, and no longer"),
    ("stop", "nothing runs in the background: Ctrl-C ends a command, and a training run is saved first"),
    (
        "list",
        "a model is a folder: look into runs/ and models/; `minigpt config list` and `minigpt data list` show what is built in",
    ),
    (
        "ls",
        "a model is a folder: look into runs/ and models/; `minigpt config list` and `minigpt data list` show what is built in",
    ),
    ("rm", "a model is a folder: remove it as any other"),
    ("cp", "a model is a folder: copy it as any other"),
    (
        "create",
        "`minigpt train --config NAME` makes a model (`minigpt config list` shows the names), `minigpt import FILE --out FOLDER` takes one from another program",
    ),
    (
        "quantize",
        "`minigpt export MODEL --to gguf --dtype q8_0 --out FILE.gguf` writes a quantised file; `minigpt generate MODEL --dtype q8_0` quantises in memory only",
    ),
    ("finetune", "`minigpt train FILE --from MODEL` trains a model further"),
    ("sample", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("complete", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("prepare", "`minigpt data prepare FILE --out FOLDER` turns text into files of tokens"),
    (
        "download",
        "`minigpt data download shakespeare` fetches data, `minigpt import hf:owner/name --out models/name` a model",
    ),
    ("tokenize", "`minigpt tokenizer encode TEXT` turns text into ids"),
    (
        "convert",
        "`minigpt import FILE --out FOLDER` takes a model from another program, `minigpt export MODEL --to hf --out FOLDER` gives one to it",
    ),
    ("server", "`minigpt serve MODEL` serves a model over HTTP"),
    ("ui", "`minigpt serve --open` shows a page in the browser"),
    ("web", "`minigpt serve --open` shows a page in the browser"),
    ("infer", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("inference", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("predict", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("ask", "`minigpt run MODEL QUESTION` has a model answer"),
    ("rag", SEARCH),
    ("search", SEARCH),
    ("index", SEARCH),
    ("query", SEARCH),
    ("检索", SEARCH),
    ("搜索", SEARCH),
    ("resume", "`minigpt train --resume --out FOLDER` goes on with a run"),
    ("benchmark", "`minigpt bench decode MODEL` measures how fast a model writes"),
    ("version", "`minigpt help` shows what there is, --version which one it is"),
    ("embed", "`minigpt inspect MODEL --prompt TEXT --walk --json` has every vector of a forward pass"),
    ("embedding", "`minigpt inspect MODEL --prompt TEXT --walk --json` has every vector of a forward pass"),
    ("演示", "`minigpt demo` trains a small model and talks with it"),
    ("训练", "`minigpt train novel.txt` trains on a text of yours"),
    ("聊天", "`minigpt chat MODEL` talks with a model"),
    ("对话", "`minigpt chat MODEL` talks with a model"),
    ("生成", "`minigpt generate MODEL --prompt TEXT` lets a model write"),
    ("帮助", "`minigpt help` shows what there is, --version which one it is"),
    ("evaluate", "`minigpt eval MODEL --data FILE` measures how well a model predicts data"),
    ("perplexity", "`minigpt eval MODEL --data FILE` measures how well a model predicts data"),
];

/// The answer to a command that we do not have.
pub(super) fn of(command: &str) -> Option<String> {
    let (_, answer) = INSTEAD.iter().find(|(name, _)| *name == command)?;
    Some(format!("there is no command {command}: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::INSTEAD;
    use crate::{Cli, arguments};
    use clap::CommandFactory;

    #[test]
    fn what_is_named_instead_exists() {
        for (name, answer) in INSTEAD {
            assert!(Cli::command().find_subcommand(name).is_none(), "{name} is a command of ours");
            for command in answer.split('`').skip(1).step_by(2) {
                let words = command.split(' ').map(Into::into);
                let is_help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
                assert!(arguments::parse(words).as_ref().err().is_none_or(is_help), "{command}");
            }
        }
    }
}
