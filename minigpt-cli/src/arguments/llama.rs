//! Options that llama.cpp's and Ollama's users type by habit: those that have a longer name here, and those that need no
//! counterpart, of which is said what happens anyway.

use super::{Value, is_value};

/// The commands that run a model.
const COMMANDS: [&str; 4] = ["run", "chat", "generate", "serve"];

/// Options of one meaning, whether a value follows, and what happens here.
const WITHOUT_EFFECT: &[(&[&str], bool, &str)] = &[
    (
        &["-ngl", "--n-gpu-layers", "--gpu-layers"],
        true,
        "a model is computed on the CPU as a whole, or on what --device names",
    ),
    (
        &["-cnv", "--conversation", "-i", "--interactive"],
        false,
        "without a prompt, `minigpt run MODEL` is a conversation anyway",
    ),
    (
        &["-no-cnv", "--no-conversation"],
        false,
        "with a prompt, `minigpt run MODEL PROMPT` answers and ends anyway",
    ),
    (
        &["--mlock", "--no-mmap"],
        false,
        "files are mapped into memory, and stay there as long as they are used",
    ),
    (&["--verbose", "-v"], false, "`minigpt generate MODEL --explain` shows what happens token by token"),
];

/// What an option of several letters behind one dash is called here.
pub(super) fn long_name(option: &str) -> Option<&'static str> {
    matches!(option, "-ctk" | "-ctv").then_some("--cache-type")
}

/// What to say of an option that changes nothing here; none where it is not known.
pub(super) fn without_effect(command: &str, option: &str, value: &mut Value) -> Option<String> {
    let dashed = option.replace('_', "-");
    let (_, takes, happens) = WITHOUT_EFFECT
        .iter()
        .find(|(names, ..)| COMMANDS.contains(&command) && names.contains(&dashed.as_str()))?;
    if *takes {
        value(&is_value);
    }
    Some(format!("{option}: {happens}"))
}
