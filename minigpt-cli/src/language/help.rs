//! Help and clap's own errors in Chinese: our texts are exchanged before clap lays them out, its headings afterwards.

use super::catalogue::CATALOGUE;
use super::{Language, current, translated};
use crate::screen;
use clap::Command;
use clap::builder::StyledStr;
use minigpt_charts::width;

/// What stands at the beginning of a line that clap writes.
const HEADS: [(&str, &str); 10] = [
    ("error: ", "错误："),
    ("tip: ", "提示："),
    ("Usage: ", "用法："),
    ("Commands:", "命令："),
    ("Arguments:", "参数："),
    ("Options:", "选项："),
    ("Examples:", "示例："),
    ("Presets:", "预设："),
    ("Possible values:", "可选值："),
    ("[possible values: ", "[可选值："),
];

/// What it puts in brackets behind a text.
const BRACKETS: [(&str, &str); 6] = [
    ("[subcommands: ", "[子命令："),
    ("[default: ", "[默认值："),
    ("[possible values: ", "[可选值："),
    ("[alias: ", "[别名："),
    ("[aliases: ", "[别名："),
    ("[env: ", "[环境变量："),
];

/// The program with its help in the chosen language.
pub fn in_language(program: Command) -> Command {
    match current() {
        Language::En => program,
        // Lines are broken afterwards: clap breaks at spaces, which Chinese has not.
        Language::Zh => texts(program.term_width(usize::MAX)),
    }
}

fn texts(mut command: Command) -> Command {
    let exchanged = |text: Option<&StyledStr>| text.map(|text| exact(&text.to_string()));
    if let Some(about) = exchanged(command.get_about()) {
        command = command.about(about);
    }
    if let Some(about) = exchanged(command.get_long_about()) {
        command = command.long_about(about);
    }
    if let Some(after) = exchanged(command.get_after_help()) {
        command = command.after_help(after);
    }
    let command = command.mut_args(|mut arg| {
        if let Some(help) = exchanged(arg.get_help()) {
            arg = arg.help(help);
        }
        if let Some(help) = exchanged(arg.get_long_help()) {
            arg = arg.long_help(help);
        }
        arg
    });
    command.mut_subcommands(texts)
}

fn exact(text: &str) -> String {
    CATALOGUE.plain(text).unwrap_or(text).to_owned()
}

/// A page of help, or an error, as clap has laid it out, in the chosen language.
pub fn page(text: &str) -> String {
    match current() {
        Language::En => text.to_owned(),
        Language::Zh => text.split('\n').flat_map(|text| broken(&line(text))).collect::<Vec<_>>().join("\n"),
    }
}

fn line(line: &str) -> String {
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    // `- name: what it means`, of a value that an option may have.
    if let Some((name, help)) = text.strip_prefix("- ").and_then(|text| text.split_once(':')) {
        let help = help.trim_start();
        return format!("{indent}- {name}：{}", exact(help));
    }
    if let Some((typed, comment)) = text.split_once("   # ") {
        return format!("{indent}{typed}   # {}", exact(comment));
    }
    let mut line = match HEADS.iter().find(|(english, _)| text.starts_with(english)) {
        Some((english, chinese)) => format!("{indent}{chinese}{}", translated(&text[english.len()..])),
        None => format!("{indent}{}", built_in(text)),
    };
    for (english, chinese) in BRACKETS {
        line = line.replace(english, chinese);
    }
    line
}

/// What clap says of the options and commands that it adds itself, behind their names; or a line of an error.
fn built_in(text: &str) -> String {
    match text.rsplit_once("  ") {
        Some((name, help)) => format!("{name}  {}", exact(help)),
        None => translated(text).into_owned(),
    }
}

/// A line in as many as the terminal needs; what goes on stands below where the text began.
fn broken(line: &str) -> Vec<String> {
    let columns = screen::picture_columns().min(100);
    let begin = line.rfind("  ").map_or(0, |at| width(&line[..at + 2]));
    if width(line) <= columns || begin + 20 > columns {
        return vec![line.to_owned()];
    }
    let (mut lines, mut last, mut word) = (Vec::new(), String::new(), String::new());
    for c in line.chars() {
        // A word of Latin letters stays whole; between Chinese characters there may be a break anywhere.
        let wide = width(c.encode_utf8(&mut [0; 4])) == 2;
        if wide || c == ' ' {
            last.push_str(&std::mem::take(&mut word));
        }
        word.push(c);
        if "，。；：、）！？".contains(c) {
            // Never at the beginning of a line.
            last.push_str(&std::mem::take(&mut word));
        } else if width(&last) + width(&word) > columns && width(&last) > begin {
            lines.push(last.trim_end().to_owned());
            last = " ".repeat(begin);
            word = word.trim_start().to_owned();
        }
    }
    lines.push(last + &word);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_their_text() {
        let lines = broken(&format!("  --name  {}", "很长的说明 with words ".repeat(12)));
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line) <= 102), "{lines:#?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("          ")), "{lines:#?}");
    }
}
