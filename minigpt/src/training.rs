//! The shortest ways to a model: from data in memory ([`Training`]), or from a configuration ([`train`]).

use crate::error::{Error, Result};
use crate::model_folder::ModelFolder;
use crate::run::{Place, Run, RunError};
use crate::run_config::RunConfig;
use crate::suggestion::Suggestion;
use minigpt_model::Device;
use minigpt_train::{Observer, Report};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Trains a model on data in memory. Settings that are not given are chosen as by `minigpt train DATA`: a small model that suits the
/// data, for about five minutes.
///
/// ```
/// use minigpt::Training;
///
/// let text = "the cat sat on the mat. ".repeat(40);
/// let trained = Training::on_text(text).steps(2).set("model.n_embd", 32).train()?;
/// println!("{}", trained.model.generate("the cat")?);
/// # Ok::<(), minigpt::Error>(())
/// ```
///
/// Questions and answers, kept in a run folder, from a model that is there already:
///
/// ```no_run
/// # use minigpt::Training;
/// let facts = [("Where is the spare key?", "Under the blue pot."), ("Who has the ladder?", "Our neighbour.")];
/// let trained = Training::on_questions(facts).from("runs/demo").out("runs/house").minutes(1.0).train()?;
/// println!("{}", trained.model.generate("Where is the spare key?")?);
/// # Ok::<(), minigpt::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Training {
    data: String,
    name: &'static str,
    changes: Vec<String>,
    minutes: Option<f64>,
    from: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// A model that was trained.
pub struct Trained {
    /// The model, in memory.
    pub model: ModelFolder,
    /// How the run went. Without [`Training::out`], the folder that it names is gone.
    pub report: Report,
}

impl Training {
    /// Trains on running text.
    pub fn on_text(text: impl Into<String>) -> Self {
        Self::on(text.into(), "data.txt")
    }

    /// Trains on several texts, with an empty line between them.
    pub fn on_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut whole = String::new();
        for text in texts {
            if !whole.is_empty() {
                whole.push_str("\n\n");
            }
            whole.push_str(text.as_ref());
        }
        Self::on(whole, "data.txt")
    }

    /// Trains on pairs of a question and its answer.
    pub fn on_questions<Q: AsRef<str>, A: AsRef<str>>(pairs: impl IntoIterator<Item = (Q, A)>) -> Self {
        let line = |(question, answer): (Q, A)| {
            let (question, answer) = (question.as_ref(), answer.as_ref());
            serde_json::json!({ "question": question, "answer": answer }).to_string() + "\n"
        };
        Self::on(pairs.into_iter().map(line).collect(), "data.jsonl")
    }

    fn on(data: String, name: &'static str) -> Self {
        Self { data, name, changes: Vec::new(), minutes: None, from: None, out: None }
    }

    /// Sets the length of the training in minutes.
    pub fn minutes(mut self, minutes: f64) -> Self {
        self.minutes = Some(minutes);
        self
    }

    /// Sets the number of steps (`train.max_iters`).
    pub fn steps(self, steps: u64) -> Self {
        self.set("train.max_iters", steps)
    }

    /// Changes a setting, for example `model.n_layer`; the last change of a setting counts.
    /// [`SETTINGS`](crate::SETTINGS) has all of them.
    pub fn set(mut self, setting: &str, value: impl Display) -> Self {
        self.changes.push(format!("{setting}={value}"));
        self
    }

    /// Starts from the weights and the tokenizer of a model, whatever [`ModelFolder::open`] takes.
    pub fn from(mut self, model: impl Into<PathBuf>) -> Self {
        self.from = Some(model.into());
        self
    }

    /// Keeps the run, with its data, in a new folder. [`Run::resume`] can continue it.
    pub fn out(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out = Some(folder.into());
        self
    }

    /// Trains without an observer.
    ///
    /// # Errors
    /// Data with nothing to learn, a setting that does not exist, a folder that holds a run already.
    pub fn train(self) -> Result<Trained> {
        self.train_with(&mut (), &AtomicBool::new(false))
    }

    /// The same, watched, until `stop` is set.
    pub fn train_with(self, observer: &mut dyn Observer, stop: &AtomicBool) -> Result<Trained> {
        let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
        let out = self.out.unwrap_or_else(|| scratch.path().join("run"));
        if Run::is_at(&out) {
            return Err(RunError::Exists(out).into());
        }
        // Kept in the run's folder only when that is known to be free.
        let data = scratch.path().join(self.name);
        minigpt_files::write_file(&data, self.data.as_bytes())?;
        let mut changes = vec![format!("data.path={}", serde_json::Value::from(data.to_string_lossy()))];
        changes.extend(self.changes);
        let config = Suggestion::new("", &changes, self.minutes, self.from.as_deref())?.config;
        let place = Place { out: &out, from: self.from.as_deref(), input: Some(&data) };
        let mut run = Run::start(config, place, &Device::Cpu)?;
        let report = run.trainer.run(observer, stop)?;
        drop(run);
        let model = ModelFolder::open(&report.model)?;
        // Read while its folder is there.
        model.format()?;
        Ok(Trained { model, report })
    }
}

/// Trains a model as a file says, on the CPU and without an observer, in the new run folder `out`. The report says where the
/// model is. A file that names its data alone gets a small model that suits it and about five minutes, as with
/// [`Suggestion`]. [`Run`] is the same step by step: with an observer, from another model, or going on with a run.
pub fn train(config: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Report> {
    let text = RunConfig::read_open(config.as_ref(), &[])?;
    let config = Suggestion::new(&text, &[], None, None)?.config;
    let place = Place { out: out.as_ref(), from: None, input: None };
    let mut run = Run::start(config, place, &Device::Cpu)?;
    Ok(run.trainer.run(&mut (), &AtomicBool::new(false))?)
}
