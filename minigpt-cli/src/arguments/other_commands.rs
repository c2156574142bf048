//! Commands that other programs have, and what does the same here.

use crate::language::messages::arguments as message;

/// Names of commands, and the tip for them.
type Tip = (&'static [&'static str], fn() -> String);

const COMMANDS: &[Tip] = &[
    (&["pull"], || message::TipPull.to_string()),
    (&["push"], || message::TipPush.to_string()),
    (&["show"], || message::TipShow.to_string()),
    (&["ps"], || message::TipPs.to_string()),
    (&["stop"], || message::TipStop.to_string()),
    (&["list", "ls"], || message::TipList.to_string()),
    (&["rm"], || message::TipRemove.to_string()),
    (&["cp"], || message::TipCopy.to_string()),
    (&["create"], || message::TipCreate.to_string()),
    (&["quantize"], || message::TipQuantize.to_string()),
    (&["finetune"], || message::TipFinetune.to_string()),
    (&["sample", "complete", "infer", "inference", "predict", "生成"], || message::TipGenerate.to_string()),
    (&["prepare"], || message::TipPrepare.to_string()),
    (&["download"], || message::TipDownload.to_string()),
    (&["tokenize"], || message::TipTokenize.to_string()),
    (&["convert"], || message::TipConvert.to_string()),
    (&["server"], || message::TipServe.to_string()),
    (&["ui", "web"], || message::TipPage.to_string()),
    (&["ask"], || message::TipAsk.to_string()),
    (&["rag", "search", "index", "query", "检索", "搜索"], || message::TipSearch.to_string()),
    (&["resume"], || message::TipResume.to_string()),
    (&["benchmark"], || message::TipBenchmark.to_string()),
    (&["version", "帮助"], || message::TipHelp.to_string()),
    (&["embed", "embedding"], || message::TipEmbed.to_string()),
    (&["演示"], || message::TipDemo.to_string()),
    (&["训练"], || message::TipTrain.to_string()),
    (&["聊天", "对话"], || message::TipChat.to_string()),
    (&["evaluate", "perplexity"], || message::TipEval.to_string()),
];

/// What to type instead of another program's command.
pub(super) fn tip(command: &str) -> Option<String> {
    let (_, tip) = COMMANDS.iter().find(|(names, _)| names.contains(&command))?;
    Some(tip())
}

#[cfg(test)]
mod tests {
    use super::COMMANDS;
    use crate::{Cli, arguments};
    use clap::CommandFactory;

    #[test]
    fn tips_name_commands_that_exist() {
        for (names, tip) in COMMANDS {
            for name in *names {
                assert!(Cli::command().find_subcommand(name).is_none(), "{name} is a command of ours");
            }
            for command in tip().split('`').skip(1).step_by(2) {
                let words = command.split(' ').map(Into::into);
                let is_help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
                assert!(arguments::parse(words).as_ref().err().is_none_or(is_help), "{command}");
            }
        }
    }
}
