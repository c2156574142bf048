//! `minigpt train` as somebody types it who comes from nanoGPT: any setting of a run as `--key=value`, and an answer to
//! nanoGPT's settings that are something else here.

use super::{Value, is_value, numbers, wrong};
use clap::Arg;
use clap::error::{ErrorKind, Result};
use minigpt::SETTINGS;
use minigpt::settings::with_sections;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Settings of nanoGPT's that have no effect here, and what happens instead. Where they are switched off, that is what
/// happens anyway.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "wandb_log",
        "a run is recorded in its folder (metrics.jsonl, and files for TensorBoard), not at Weights & Biases; `minigpt plot RUN` draws it",
    ),
    ("wandb_project", "a run is recorded in its folder, not at Weights & Biases"),
    ("wandb_run_name", "a run is named by its folder: --out runs/NAME"),
    ("compile", "there is nothing to compile: the program is compiled already"),
    ("dtype", "training computes in float32"),
    (
        "backend",
        "one process trains with all cores of this machine; `mpirun -n 4 minigpt train …` trains with four",
    ),
    (
        "always_save_checkpoint",
        "last/ is always saved, to go on from, and best/ whenever the validation loss is the lowest so far",
    ),
];

/// Settings as transformers' `Trainer` calls them, and what they are called here.
const TRAINERS: &[(&str, &str)] = &[
    ("output_dir", "out_dir"),
    ("num_train_epochs", "epochs"),
    ("max_steps", "max_iters"),
    ("per_device_train_batch_size", "batch_size"),
    ("lr", "learning_rate"),
    ("warmup_steps", "warmup_iters"),
    ("max_grad_norm", "grad_clip"),
    ("adam_beta1", "beta1"),
    ("adam_beta2", "beta2"),
    ("adam_epsilon", "eps"),
    ("logging_steps", "log_interval"),
    ("eval_steps", "eval_interval"),
    ("save_steps", "save_interval"),
];

/// What was made of one command line.
#[derive(Default)]
pub(super) struct Habits {
    /// What the person should know.
    pub notes: Vec<String>,
}

impl Habits {
    /// The words for clap that an option means which clap does not know; none where nobody does.
    pub fn setting(&mut self, option: &str, value: &mut Value) -> Result<Option<Vec<OsString>>> {
        let Some(mut key) = option.strip_prefix("--").map(|key| key.replace('-', "_")) else {
            return Ok(None);
        };
        if let Some((theirs, ours)) = TRAINERS.iter().find(|(theirs, _)| *theirs == key) {
            self.notes.push(format!("{theirs} is called {ours} here"));
            key = (*ours).to_owned();
        }
        if let Some((_, happens)) = WITHOUT_EFFECT.iter().find(|(name, _)| *name == key) {
            let given =
                if is_switch(&key) { value(&|word| switch(word).is_some()) } else { value(&is_value) };
            let off =
                given.as_deref().is_some_and(|given| switch(given) == Some(false) || given == "float32");
            if !off || key == "always_save_checkpoint" {
                self.notes.push(format!("{key}: {happens}"));
            }
            return Ok(Some(Vec::new()));
        }
        let mut needed = || match value(&is_value) {
            Some(value) => Ok(plain(&value)),
            None => Err(wrong(
                ErrorKind::InvalidValue,
                &format!("{option} needs a value, for example {option}=…"),
            )),
        };
        match key.as_str() {
            "model_name_or_path" => Ok(Some(vec![format!("--from={}", needed()?).into()])),
            "out_dir" => Ok(Some(vec![format!("--out={}", needed()?).into()])),
            "init_from" => {
                let from = needed()?;
                match (from.as_str(), hub_model(&from)) {
                    ("resume", _) => Ok(Some(vec!["--resume".into()])),
                    ("scratch", _) => Ok(Some(Vec::new())),
                    (_, Some(model)) => Ok(Some(vec![format!("--from={model}").into()])),
                    (other, None) => Err(wrong(
                        ErrorKind::InvalidValue,
                        &format!(
                            "{option}={other}: it is resume, scratch, gpt2, gpt2-medium, gpt2-large or gpt2-xl; a model in a folder is named with --from FOLDER"
                        ),
                    )),
                }
            }
            "decay_lr" => {
                match value(&|word| switch(word).is_some()).as_deref().and_then(switch) {
                    Some(false) => {
                        self.notes.push("decay_lr: the rate stays the same (train.lr_decay=constant, train.warmup_iters=0)".to_owned());
                        Ok(Some(vec![
                            "--set=train.lr_decay=constant".into(),
                            "--set=train.warmup_iters=0".into(),
                        ]))
                    }
                    _ => Ok(Some(Vec::new())),
                }
            }
            _ if SETTINGS.iter().any(|setting| setting.key == key) => {
                let change = format!("{key}={}", needed()?);
                let change = numbers::change(&change, &mut self.notes);
                let change = with_sections(&[change])
                    .map_err(|error| wrong(ErrorKind::InvalidValue, &error.to_string()))?;
                Ok(Some(change.iter().map(|change| format!("--set={change}").into()).collect()))
            }
            _ => Ok(None),
        }
    }
}

/// The data that nanoGPT's `--dataset` names: a folder of its `data/`, or else a path.
pub(super) fn dataset(name: &OsStr) -> String {
    let name = plain(name);
    let folder = format!("data/{name}");
    if Path::new(&folder).exists() || !Path::new(&name).exists() { folder } else { name }
}

/// One of GPT-2's models by its name at OpenAI.
pub(super) fn hub_model(name: &str) -> Option<String> {
    const MODELS: [&str; 4] = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"];
    MODELS.contains(&name).then(|| format!("hf:openai-community/{name}"))
}

fn is_switch(key: &str) -> bool {
    ["wandb_log", "compile", "always_save_checkpoint"].contains(&key)
}

/// Yes or no, as Python or TOML writes it.
pub(super) fn switch(value: &OsStr) -> Option<bool> {
    match value.to_str()? {
        "true" | "True" => Some(true),
        "false" | "False" => Some(false),
        _ => None,
    }
}

/// A value without Python's ways to write it.
fn plain(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    match switch(value) {
        Some(switch) => switch.to_string(),
        None => ['\'', '"']
            .iter()
            .find_map(|&q| text.strip_prefix(q)?.strip_suffix(q))
            .unwrap_or(&text)
            .to_owned(),
    }
}

/// The value of an option that `train` has: a setting with its section, a device by our name for it.
pub(super) fn value_of(arg: &Arg, value: OsString) -> OsString {
    match (arg.get_id().as_str(), value.to_str()) {
        // What is wrong with it is said by the run.
        ("changes", Some(change)) => match with_sections(&[change.to_owned()]).as_deref() {
            Ok([change]) => change.into(),
            _ => value,
        },
        ("device", Some("mps")) => "metal".into(),
        ("device", Some(device)) if device.starts_with("cuda:") => "cuda".into(),
        _ => value,
    }
}

/// nanoGPT's configurations are Python.
pub(super) fn refuse_script(word: &OsStr) -> Result<()> {
    let Some(script) = word.to_str().filter(|word| word.ends_with(".py")) else { return Ok(()) };
    let ours = match script {
        _ if script.contains("finetune") => "gpt2-finetune",
        _ if script.contains("gpt2") => "gpt2",
        _ => "shakespeare-nanogpt",
    };
    let message = format!(
        "{script} is a Python script, which is not run here: --config {ours} is built in, `minigpt config list` shows the others, and settings such as --max_iters=100 may stand beside it"
    );
    Err(wrong(ErrorKind::InvalidValue, &message))
}
