//! `minigpt config settings`: every setting, for a terminal or as the page of `docs/`.

use crate::language::messages::config as message;
use crate::language::{self, Language};
use crate::output;
use anyhow::{Result, bail};
use clap::Args;
use minigpt::settings::near;
use minigpt::{SECTIONS, SETTINGS, SettingInfo};
use minigpt_charts::width;
use serde_json::Value;

#[derive(Args)]
pub(super) struct SettingsArgs {
    /// A section (train) or a setting (max_iters, train.max_iters). Default: all.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the page docs/settings.md.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print a list of {"section", "key", "default", "allowed", "meaning"} as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SettingsArgs) -> Result<()> {
    let settings = chosen(args.name.as_deref())?;
    if args.json {
        return output::json(&settings.iter().map(|setting| entry(setting)).collect::<Vec<_>>());
    }
    let lang = language::current();
    output::text(&if args.markdown { page(&settings, lang) } else { text(&settings, lang) })
}

/// The settings that a name means.
fn chosen(name: Option<&str>) -> Result<Vec<&'static SettingInfo>> {
    let Some(name) = name.map(|name| name.replace('-', "_")) else { return Ok(SETTINGS.iter().collect()) };
    let name = name.trim_matches(['[', ']']);
    let meant =
        |setting: &&SettingInfo| setting.section == name || setting.key == name || setting.name() == name;
    let found: Vec<_> = SETTINGS.iter().filter(meant).collect();
    if found.is_empty() {
        let key = name.split_once('.').map_or(name, |(_, key)| key);
        let guess = near(None, key)
            .map_or_else(String::new, |near| message::DidYouMeanSuffix { near: &near }.to_string());
        bail!("{}", message::NoSuchSetting { name: &name, guess: &guess });
    }
    Ok(found)
}

/// For a program, which is told the same in every language.
fn entry(setting: &SettingInfo) -> Value {
    serde_json::json!({
        "section": setting.section,
        "key": setting.key,
        "default": setting.default_value(),
        "allowed": setting.allowed.in_words(),
        "meaning": setting.meaning,
    })
}

fn allowed(setting: &SettingInfo, lang: Language) -> String {
    match lang {
        Language::En => setting.allowed.in_words(),
        Language::Zh => setting.allowed.in_chinese(),
    }
}

fn meaning(setting: &SettingInfo, lang: Language) -> &'static str {
    match lang {
        Language::En => setting.meaning,
        Language::Zh => setting.meaning_zh,
    }
}

/// Section by section, each setting as a file would have it, what it may be, and below what it means.
fn text(settings: &[&SettingInfo], lang: Language) -> String {
    let mut text = String::new();
    for (section, about, about_zh) in SECTIONS {
        let of: Vec<_> = settings.iter().filter(|setting| setting.section == section).collect();
        if of.is_empty() {
            continue;
        }
        let about = if lang == Language::En { about } else { about_zh };
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}[{section}]  {about}\n"));
        for setting in of {
            let default = setting.default_value().map_or_else(String::new, |value| format!(" = {value}"));
            let left = format!("  {}{default}", setting.key);
            let space = " ".repeat(36_usize.saturating_sub(width(&left)).max(2));
            text.push_str(&format!("{left}{space}{}\n", allowed(setting, lang)));
            text.push_str(&format!("      {}\n", meaning(setting, lang)));
        }
    }
    text
}

/// The page of `docs/`.
fn page(settings: &[&SettingInfo], lang: Language) -> String {
    let mut page = String::from(match lang {
        Language::En => EN,
        Language::Zh => ZH,
    });
    for (section, about, about_zh) in SECTIONS {
        let (about, head) = match lang {
            Language::En => (about, "| setting | default | may be | meaning |"),
            Language::Zh => (about_zh, "| 设置 | 默认值 | 取值 | 含义 |"),
        };
        page.push_str(&format!("\n## `[{section}]`: {about}\n\n{head}\n|---|---|---|---|\n"));
        for setting in settings.iter().filter(|setting| setting.section == section) {
            let default = setting.default_value().map_or_else(String::new, |value| format!("`{value}`"));
            let (key, allowed) = (setting.key, allowed(setting, lang));
            page.push_str(&format!("| `{key}` | {default} | {allowed} | {} |\n", meaning(setting, lang)));
        }
    }
    page
}

const EN: &str = "# Settings

Written by `minigpt config settings --markdown`; a test compares it with the program. 中文：[settings.zh.md](settings.zh.md)

A configuration file has these sections. `minigpt train --config FILE --set train.max_iters=100` changes one setting for one run;
`--max_iters=100` does the same. A setting without a default is absent until somebody sets it.
";

const ZH: &str = "# 设置

本页由 `minigpt config settings --markdown --lang zh` 生成，并有测试与程序核对。English: [settings.md](settings.md)

配置文件由以下各节组成。`minigpt train --config FILE --set train.max_iters=100` 只为这一次运行修改一项设置；
`--max_iters=100` 效果相同。没有默认值的设置，不写就不生效。
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_docs_are_current() {
        let all: Vec<_> = SETTINGS.iter().collect();
        let said = "write it again: minigpt config settings --markdown [--lang zh] > docs/settings[.zh].md";
        assert!(page(&all, Language::En) == include_str!("../../../../docs/settings.md"), "{said}");
        assert!(page(&all, Language::Zh) == include_str!("../../../../docs/settings.zh.md"), "{said}");
    }

    #[test]
    fn a_name_means_a_section_or_a_setting() {
        let names =
            |name| chosen(Some(name)).unwrap().iter().map(|setting| setting.name()).collect::<Vec<_>>();
        assert_eq!(names("max-iters"), ["train.max_iters"]);
        assert_eq!(names("train.max_iters"), ["train.max_iters"]);
        assert_eq!(names("[sample]"), ["sample.prompt"]);
        let refused = |name| chosen(Some(name)).unwrap_err().to_string();
        assert!(refused("max_iter").ends_with("did you mean train.max_iters?"));
        assert_eq!(refused("wandb_log"), "unknown setting or section wandb_log");
    }
}
