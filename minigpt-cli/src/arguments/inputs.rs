//! The main input of a command stands in a position, behind the command's name. These options say the same; they are not
//! shown in the help.

/// A command and the options that name its input.
const INPUTS: &[(&str, &[&str])] = &[
    ("data prepare", &["--input"]),
    ("tokenizer train", &["--input"]),
    ("tokenizer encode", &["--text"]),
    ("tokenizer decode", &["--ids"]),
    ("eval", &["--model", "-m"]),
    // `--out_dir` is nanoGPT's.
    ("generate", &["--model", "-m", "--out_dir"]),
    ("chat", &["--model", "-m"]),
    ("run", &["--model", "-m"]),
    ("inspect", &["--model", "-m"]),
    ("export", &["--model", "-m"]),
];

/// Whether an option names the input of a command.
pub(super) fn is_input(command: &str, option: &str) -> bool {
    INPUTS.iter().any(|(name, options)| *name == command && options.contains(&option))
}
