//! `minigpt generate` with the settings of nanoGPT's `sample.py` and of transformers' `generate`, as far as they are
//! something else here.

use super::nanogpt::{hub_model, switch};
use super::{Value, is_value, wrong};
use clap::error::{ErrorKind, Result};
use std::ffi::{OsStr, OsString};

/// What an option means that clap does not know.
pub(super) enum Meant {
    /// Words for clap.
    Words(Vec<OsString>),
    /// The model, by its name on the hub.
    Model(OsString),
}

/// The meaning of an option of `generate`; none if nobody has it.
pub(super) fn option(option: &str, value: &mut Value, notes: &mut Vec<String>) -> Result<Option<Meant>> {
    let name = option.trim_start_matches('-').replace('-', "_");
    let words = |words: &[&str]| Ok(Some(Meant::Words(words.iter().map(OsString::from).collect())));
    let mut is_on = || value(&|word| switch(word).is_some()).as_deref().and_then(switch) != Some(false);
    match name.as_str() {
        "compile" => {
            if is_on() {
                notes
                    .push("compile: there is nothing to compile: the program is compiled already".to_owned());
            }
            words(&[])
        }
        "do_sample" => words(if is_on() { &[] } else { &["--temperature=0"] }),
        "max_length" => Err(wrong(
            ErrorKind::UnknownArgument,
            &format!("{option} counts the prompt, too; say --max-new-tokens, which counts what is written"),
        )),
        "init_from" => match value(&is_value) {
            // The folder is named by --out_dir.
            Some(from) if from == "resume" => words(&[]),
            Some(from) => match hub_model(&from.to_string_lossy()) {
                Some(model) => Ok(Some(Meant::Model(model.into()))),
                None => Err(wrong(
                    ErrorKind::InvalidValue,
                    &format!(
                        "{option}={}: it is resume, gpt2, gpt2-medium, gpt2-large or gpt2-xl",
                        from.display()
                    ),
                )),
            },
            None => Err(wrong(
                ErrorKind::InvalidValue,
                &format!("{option} needs a value, for example {option}=…"),
            )),
        },
        _ => Ok(None),
    }
}

/// `--start=FILE:prompt.txt` is a file with the prompt.
pub(super) fn prompt_file(typed: &str, value: &OsStr) -> Option<OsString> {
    let file = value.to_str()?.strip_prefix("FILE:").filter(|_| typed == "--start")?;
    Some(format!("--prompt-file={file}").into())
}
