//! A training run from its configuration: the data opened and split, the model made or loaded, the folder taken.

use crate::error::{Error, Result};
use crate::machine;
use crate::model_folder::{ending_ids, tokenizer_mismatch};
use crate::model_place::ModelPlace;
use crate::run_config::{DataConfig, ExampleStyle, RunConfig};
use crate::settings;
use minigpt_chat::Format;
use minigpt_data::{
    BadLines, Corpus, CorpusKind, CorpusOptions, CorpusParts, ExampleFormat, LossOn, Padding, QaDataset,
    QaOptions, RandomRows, ReadOptions, Source, TokenizerChoice,
};
use minigpt_formats::nanogpt;
use minigpt_formats::{ChatTemplate, ExtraKeys, Loaded, OnDisk, load, load_config};
use minigpt_model::plan::Plan;
use minigpt_model::{Config, Device, Gpt};
use minigpt_tokenizer::{Tokenizer, UNK};
use minigpt_train::{
    BestBy, Change, Exchange, Judge, RunFolder, SingleRank, Trainer, TrainingData, checkpoint,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod base;
mod eval_set;
mod evaluation;
mod invitation;

use eval_set::{Questions, asked};
use invitation::Invitation;

pub use base::decided_by_model;
pub use eval_set::{EvalSet, Score, SetSource};
pub use evaluation::RunEvaluation;

/// Questions that are asked to choose the best model: enough to tell two apart, and soon answered.
const JUDGED: u64 = 200;
/// How often a few new examples are repeated, so that many different old ones stand beside them.
const REPEATS: u64 = 100;
/// The file in a run's folder that says how it is trained.
const SETTINGS: &str = "config.toml";

/// Where a new run happens, and what it begins with.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The run's folder.
    pub out: &'a Path,
    /// A model to start from: all that [`ModelPlace::find`] finds.
    pub from: Option<&'a Path>,
    /// The file of the data if it is only temporary: once the folder is known to be free, the file is moved into it as
    /// `input.txt` (with its own ending), and the run's configuration names it there.
    pub input: Option<&'a Path>,
}

/// A run that is ready for its first step, or its next.
pub struct Run {
    /// What trains.
    pub trainer: Trainer,
    /// The configuration as it was resolved.
    pub config: RunConfig,
    /// What this start changed in the settings of the run that it goes on with.
    pub changes: Vec<Change>,
    /// What made the ids.
    pub tokenizer: Option<Tokenizer>,
    /// Lines of the data that could not be used.
    pub bad_lines: BadLines,
    /// Whether it learns from text or from questions and answers.
    pub kind: CorpusKind,
    /// What a person should know about the data: what it was read as, and what of it the vocabulary lacks.
    pub notes: Vec<String>,
    /// The model that it trains further, or its own last one.
    base: Option<PathBuf>,
}

impl Run {
    /// Opens all that a new run needs: its data, its model, its folder. A model that is there already must agree with the
    /// settings that were asked for one by one ([`RunConfig::asked`]).
    pub fn start(config: RunConfig, place: Place, device: &Device) -> Result<Self> {
        Self::start_on(SingleRank::exchange(), config, place, device)
    }

    /// The same on several ranks, as the first of them; the others [`join`](Self::join).
    pub fn start_on(
        exchange: Arc<dyn Exchange>,
        mut config: RunConfig,
        place: Place,
        device: &Device,
    ) -> Result<Self> {
        let Place { out, from, input } = place;
        let from = from.map(ModelPlace::find).transpose()?;
        let from = from.as_ref().map(|place| place.path.as_path());
        let asked = std::mem::take(&mut config.asked);
        from.map_or(Ok(()), |from| base::check(from, &asked))?;
        let named = named_settings(&asked);
        let context = from.map(|from| context(&config, from, &named)).transpose()?;
        let brought = Brought::by(from)?;
        let OpenedData { data, bad_lines, kind, mut notes } =
            open_run_data(&config, from, &brought, context)?;
        check_used(&config, &asked, kind)?;
        if brought.tokenizer.is_some() {
            // The model's own is used, whatever a file says.
            config.data.tokenizer = None;
        }
        config.model = shape(&config, &data, from, context, &named)?;
        check_memory(&config, 1)?;
        // Opened last: nothing is made before it is certain that it can be trained.
        let run = match input {
            Some(input) => RunFolder::open_for_input(out, input)?,
            None => RunFolder::open(out)?,
        };
        let (tokenizer, settings) = (data.tokenizer.clone(), run.join(SETTINGS));
        let Loaded { gpt, mut extra } = model(&config, from, device)?;
        if let (Some(template), Some(tokenizer)) = (&data.template, &tokenizer)
            && brought.template.as_ref().map(|own| &own.source) != Some(&template.source)
        {
            // What it learns ends as its new template says, whatever the model that it began with says.
            extra.extend(template.config_keys(tokenizer));
        }
        if let Some(input) = input {
            // The other ranks open it in its final place.
            let (kept, aside) = run.keep_input(input)?;
            let temporary = std::mem::replace(&mut config.data.path, path_text(&kept)?);
            notes.iter_mut().for_each(|note| *note = note.replace(&temporary, &config.data.path));
            notes.extend(aside.map(|aside| {
                let path = &config.data.path;
                format!("{path} was there already: it is kept as {}", aside.display())
            }));
        }
        Invitation::new(&config, &brought, None)?.send(&exchange)?;
        let judge = judge(&config, &brought, tokenizer.as_ref())?;
        let mut trainer = Trainer::new_on(exchange, gpt, data, config.train.clone(), run)?.with_extra(extra);
        if let Some(judge) = judge {
            trainer = trainer.with_judge(judge);
        }
        // Only now is the run accepted; a refused one leaves the folder as it was.
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        let base = from.map(Path::to_owned);
        Ok(Self { trainer, config, changes: Vec::new(), tokenizer, bad_lines, kind, notes, base })
    }

    /// Goes on with the run in a folder, with its own settings but for `changes` such as `train.max_iters=960`. A
    /// change that would make it another run is refused.
    pub fn resume(out: &Path, changes: &[String], device: &Device) -> Result<Self> {
        Self::resume_on(SingleRank::exchange(), out, changes, device)
    }

    /// The same on several ranks, however many there were before, as the first of them; the others
    /// [`join`](Self::join).
    pub fn resume_on(
        exchange: Arc<dyn Exchange>,
        out: &Path,
        changes: &[String],
        device: &Device,
    ) -> Result<Self> {
        if !out.is_dir() {
            return Err(Error::NoRun(out.to_owned()));
        }
        let changes = &settings::with_sections(changes)?;
        // Opened first: that mends what a killed process left.
        let run = RunFolder::open(out)?;
        let (last, settings) = (run.join("last"), run.join(SETTINGS));
        if !checkpoint::exists(&last)? {
            return Err(Error::NoRun(out.to_owned()));
        }
        let state_text = checkpoint::state_text(&last)?;
        let state = checkpoint::state(&last)?;
        let written = RunConfig::of_run(&settings, &[])?;
        let then = RunConfig { model: load_config(&last)?, train: state.train.with_one_length(), ..written };
        let config = RunConfig::of_run(&settings, changes)?;
        if changes.iter().any(|change| change.trim_start().starts_with("model.preset")) {
            return Err(Error::Setting("model.preset: a run that goes on keeps its model".to_owned()));
        }
        let changes = then.changes(&config, state.step);
        changes.iter().try_for_each(Change::check)?;
        let brought = Brought::by(Some(&last))?;
        let OpenedData { data, bad_lines, kind, notes } =
            open_run_data(&config, Some(&last), &brought, None)?;
        check_memory(&config, 1)?;
        let tokenizer = data.tokenizer.clone();
        let others = changes.iter().filter(|change| !change.setting.starts_with("train.")).cloned().collect();
        Invitation::new(&config, &brought, Some(state_text))?.send(&exchange)?;
        let judge = judge(&config, &brought, tokenizer.as_ref())?;
        let mut trainer =
            Trainer::resume_on(exchange, data, config.train.clone(), run, device)?.with_changes(others);
        if let Some(judge) = judge {
            trainer = trainer.with_judge(judge);
        }
        minigpt_files::write_file(&settings, config.to_toml()?.as_bytes())?;
        Ok(Self { trainer, config, changes, tokenizer, bad_lines, kind, notes, base: Some(last) })
    }

    /// The run's own data to score its model on: how well it is predicted and, of questions, how many are answered.
    pub fn own_set(&self) -> Result<EvalSet> {
        let brought = Brought { tokenizer: self.tokenizer.clone(), ..Brought::by(self.base.as_deref())? };
        EvalSet::of_data(&self.config, &brought, self.trainer.gpt())
    }
}

/// The path of a file as a setting.
fn path_text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let path = path.display();
        Error::Setting(format!("{path}: the run's folder has a name that is not valid Unicode"))
    })
}

/// What a model that is trained further brings along: its vocabulary, and how it is spoken to.
#[derive(Clone, Default)]
pub(crate) struct Brought {
    pub tokenizer: Option<Tokenizer>,
    pub template: Option<ChatTemplate>,
    /// The tokens that end an answer.
    pub ends: Vec<u32>,
}

impl Brought {
    /// What a model brings; nothing where there is none.
    pub fn by(base: Option<&Path>) -> Result<Self> {
        let Some(base) = base else { return Ok(Self::default()) };
        let files = OnDisk::open(base)?;
        let tokenizer = files.own_tokenizer()?.map(Tokenizer::leaving_out);
        let Some(template) = ChatTemplate::of(&files)? else {
            return Ok(Self { tokenizer, template: None, ends: Vec::new() });
        };
        let ends = ending_ids(files.model()?.extra(), Some(&template), tokenizer.as_ref());
        Ok(Self { tokenizer, template: Some(template), ends })
    }

    /// How examples are written for the model, where not as questions and answers with separators.
    fn example_format(&self, config: &RunConfig) -> Result<Option<ExampleFormat>> {
        let style = config.data.format;
        let (Some(template), Some(tokenizer)) = (&self.template, &self.tokenizer) else {
            return match style {
                Some(ExampleStyle::Own) => Err(Error::Setting(
                    "data.format is own, but there is no model with a chat template to train further"
                        .to_owned(),
                )),
                _ => Ok(None),
            };
        };
        if style == Some(ExampleStyle::Questions) {
            return Ok(None);
        }
        let format = Format::of_examples(template, tokenizer, self.ends.clone());
        if format.is_some() && self.ends.is_empty() {
            return Err(Error::Setting(
                "the model's files name no token that ends an answer (eos_token); data.format = questions trains it in \
                 another form"
                    .to_owned(),
            ));
        }
        Ok(format)
    }
}

/// Asks the run's own questions: those held out, or else those that it learns.
fn judge(config: &RunConfig, brought: &Brought, tokenizer: Option<&Tokenizer>) -> Result<Option<Judge>> {
    if config.train.best_by != BestBy::Answers {
        return Ok(None);
    }
    let brought = Brought { tokenizer: tokenizer.cloned(), ..brought.clone() };
    let most = asked(&config.model).min(JUDGED);
    let Some(questions) = Questions::of(config, &brought, most)? else {
        let path = &config.data.path;
        return Err(Error::Setting(format!(
            "train.best_by is answers, but {path} has no questions and answers"
        )));
    };
    let judge = move |gpt: &Gpt| Ok(questions.ask(gpt)?);
    Ok(Some(Box::new(judge)))
}

/// Refuses settings that were asked for and that say nothing about this kind of data.
fn check_used(config: &RunConfig, changes: &[String], kind: CorpusKind) -> Result<()> {
    if kind == CorpusKind::Qa {
        return Ok(());
    }
    let (data, usual) = (&config.data, DataConfig::default());
    let of_examples = [
        ("data.max_length", data.max_length != usual.max_length),
        ("data.loss_on", data.loss_on != usual.loss_on),
        ("data.format", data.format.is_some()),
        ("data.rehearse_path", rehearsed(data).is_some()),
    ];
    let named = |name: &str| {
        changes.iter().any(|change| change.split('=').next().is_some_and(|key| key.trim() == name))
    };
    match of_examples.iter().find(|(name, set)| *set || named(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Error::Setting(format!(
            "{name} is about examples of questions and answers, but {} is running text, which is cut into pieces of \
             model.block_size tokens",
            data.path
        ))),
    }
}

/// The settings of the model that were asked for one by one.
fn named_settings(changes: &[String]) -> Vec<&str> {
    changes.iter().filter_map(|change| change.split_once('=')?.0.trim().strip_prefix("model.")).collect()
}

/// The context in which a model is trained further: its own, or a shorter one that was asked for by name.
fn context(config: &RunConfig, base: &Path, named: &[&str]) -> Result<usize> {
    let (most, wanted) = (load_config(base)?.block_size, config.model.block_size);
    if !named.contains(&"block_size") {
        return Ok(most);
    }
    if wanted == 0 || wanted > most {
        let message = format!(
            "model.block_size is {wanted}, but the model in {} has {most}: a context can be made shorter, not longer",
            base.display()
        );
        return Err(Error::Setting(message));
    }
    Ok(wanted)
}

/// The data of a run, ready to be drawn from.
struct OpenedData {
    data: TrainingData,
    bad_lines: BadLines,
    kind: CorpusKind,
    notes: Vec<String>,
}

/// Opens the data of a run; the model that it trains further brings its tokenizer and its context.
fn open_run_data(
    config: &RunConfig,
    base: Option<&Path>,
    brought: &Brought,
    context: Option<usize>,
) -> Result<OpenedData> {
    let block_size = match (context, base) {
        (Some(context), _) => context,
        (None, Some(base)) => load_config(base)?.block_size,
        (None, None) => config.model.block_size,
    };
    let mut opened = open_data(config, brought, block_size)?;
    if let (Some(base), Some(tokenizer)) = (base, &brought.tokenizer) {
        opened.notes.extend(tokenizer_mismatch(base, tokenizer, &load_config(base)?));
    }
    Ok(opened)
}

/// How examples are cut and learned.
struct Examples {
    max_length: usize,
    loss_on: LossOn,
}

/// Opens the data of a configuration; a model that is trained further brings its tokenizer and its chat template.
fn open_corpus(
    config: &RunConfig,
    brought: &Brought,
    block_size: usize,
    Examples { max_length, loss_on }: Examples,
) -> Result<(Corpus, Vec<String>)> {
    let data = &config.data;
    if !(0.0..1.0).contains(&data.val_fraction) {
        let fraction = data.val_fraction;
        let message = format!("data.val_fraction is {fraction}; it must be at least 0 and less than 1");
        return Err(Error::Setting(message));
    }
    let path = Path::new(&data.path);
    let mut notes = Vec::new();
    let choice = match (&brought.tokenizer, tokenizer_beside(path)?, &data.tokenizer) {
        (Some(own), Some(theirs), _) if own.fingerprint() != theirs.fingerprint() => {
            return Err(Error::Setting(format!(
                "{}: its tokens were made with the meta.pkl beside them, whose characters are not the model's tokens",
                data.path
            )));
        }
        // What a model lacks a token for is left out, and said.
        (Some(tokenizer), ..) => Some(TokenizerChoice::Ready(tokenizer.clone().leaving_out())),
        // A configuration may name a tokenizer for text; these are tokens already.
        (None, Some(theirs), name) => {
            if let Some(name) = name.as_ref().filter(|name| *name != "char") {
                notes.push(format!(
                    "data.tokenizer is {name}, but the tokens were made with the meta.pkl beside them, which is used"
                ));
            }
            Some(TokenizerChoice::Ready(theirs))
        }
        (None, None, Some(name)) => Some(name.parse().unwrap_or(TokenizerChoice::Char)),
        (None, None, None) => None,
    };
    let options = CorpusOptions {
        kind: data.kind,
        tokenizer: choice,
        val_fraction: data.val_fraction,
        seed: config.train.seed,
        val_path: data.val_path.as_ref().map(PathBuf::from),
        read: ReadOptions { encoding: data.encoding, columns: data.columns.clone() },
        random: RandomRows {
            length: data.max_length.min(block_size + 1),
            vocab_size: config.model.vocab_size,
            ..RandomRows::default()
        },
        limit: data.limit,
        qa: QaOptions { max_length, loss_on, padding: Padding::Longest },
        format: brought.example_format(config)?,
    };
    let corpus = Corpus::open(path, &options)?;
    notes.extend(corpus.damage.iter().map(ToString::to_string));
    Ok((corpus, notes))
}

/// The same, ready to be drawn from.
fn open_data(config: &RunConfig, brought: &Brought, block_size: usize) -> Result<OpenedData> {
    let data = &config.data;
    // One token of a sequence is only a target, so a context of T holds T + 1 of them.
    let examples = Examples { max_length: data.max_length.min(block_size + 1), loss_on: data.loss_on };
    let (mut corpus, mut notes) = open_corpus(config, brought, block_size, examples)?;
    let kind = match &corpus.parts {
        CorpusParts::Qa { .. } => CorpusKind::Qa,
        CorpusParts::Text { .. } => CorpusKind::Text,
    };
    notes.insert(0, format!("{}: {}", data.path, corpus.read_as));
    if let Some(tokenizer) = &corpus.tokenizer {
        notes.extend(corpus.unknown.note(tokenizer).map(|note| note.to_string()));
        if matches!(tokenizer, Tokenizer::Char(_)) && tokenizer.special_id(UNK).is_none() {
            let size = tokenizer.vocab_size();
            notes.push(format!(
                "its {size} characters are the vocabulary; of other texts the rest is left out"
            ));
        }
    }
    if let (Some(path), CorpusParts::Qa { train, .. }) = (rehearsed(data), &mut corpus.parts) {
        let brought = Brought { tokenizer: corpus.tokenizer.clone(), ..brought.clone() };
        let rehearsal = rehearsal(config, path, &brought, block_size, 0, &mut notes)?;
        *train = train.with_rehearsal(&rehearsal, REPEATS)?;
        notes.push(format!("half of each batch is what {path} was trained on, so that the model keeps it"));
    }
    let bad_lines = match &corpus.parts {
        CorpusParts::Qa { bad, .. } => bad.clone(),
        CorpusParts::Text { .. } => BadLines::default(),
    };
    let model = Config { block_size, ..config.model.clone() };
    let mut data = TrainingData::new(corpus, &model, &config.train, data.order)?;
    if let Some(template) = &brought.template {
        let is_own = brought.example_format(config)?.is_some();
        if kind == CorpusKind::Text || is_own {
            data.template = Some(template.clone());
        }
        let token = |id: &u32| brought.tokenizer.as_ref().and_then(|tokenizer| tokenizer.token(*id));
        let end = brought.ends.first().and_then(token).unwrap_or_default();
        if kind == CorpusKind::Qa && is_own {
            notes.push(format!(
                "examples are written in the model's own chat template, in which {end} ends an answer"
            ));
        } else if kind == CorpusKind::Qa && config.data.format == Some(ExampleStyle::Questions) {
            let end = data.template.as_ref().and_then(|new| new.token("eos_token")).unwrap_or_default();
            notes.push(format!("the model's chat template is replaced: {end} ends each question and answer"));
        }
    }
    Ok(OpenedData { data, bad_lines, kind, notes })
}

/// What is rehearsed, unless that is nothing.
fn rehearsed(data: &DataConfig) -> Option<&str> {
    data.rehearse_path.as_deref().filter(|path| !path.is_empty())
}

/// The questions and answers that a run learned, or those of a file, to be learned again beside new ones. What the run itself
/// rehearsed belongs to it.
fn rehearsal(
    config: &RunConfig,
    path: &str,
    brought: &Brought,
    block_size: usize,
    depth: usize,
    notes: &mut Vec<String>,
) -> Result<QaDataset> {
    /// Runs that were trained further one after the other.
    const DEEPEST: usize = 16;
    let settings = Path::new(path).join(SETTINGS);
    let mut old = if settings.is_file() {
        RunConfig::read(&settings, &[])?
    } else {
        let DataConfig { max_length, loss_on, .. } = config.data;
        let (path, usual) = (path.to_owned(), DataConfig::default());
        let data = DataConfig { path, val_fraction: 0.0, max_length, loss_on, ..usual };
        RunConfig { data, ..config.clone() }
    };
    // Written as the new ones are, whatever form the run had.
    old.data.format = config.data.format;
    let max_length = old.data.max_length.min(block_size + 1);
    let examples = Examples { max_length, loss_on: old.data.loss_on };
    let (corpus, _) = open_corpus(&old, brought, block_size, examples)?;
    notes.extend(corpus.damage.iter().map(ToString::to_string));
    let CorpusParts::Qa { mut train, .. } = corpus.parts else {
        return Err(Error::Setting(format!("data.rehearse_path: {path} has no questions and answers")));
    };
    if let Some(older) = rehearsed(&old.data).filter(|_| depth < DEEPEST) {
        train.append(rehearsal(config, older, brought, block_size, depth + 1, notes)?);
    }
    Ok(train)
}

/// nanoGPT's vocabulary of characters beside tokens that say nothing of theirs.
pub fn tokenizer_beside(path: &Path) -> Result<Option<Tokenizer>> {
    let is_file = path.extension().is_some_and(|ending| ending == "bin");
    if !path.is_dir() && !is_file {
        return Ok(None);
    }
    let Ok(Source::Tokens(folder)) = Source::open(path, None, &ReadOptions::default()) else {
        return Ok(None);
    };
    let (vocabulary, own) = (folder.join("meta.pkl"), folder.join("tokenizer.json"));
    if vocabulary.is_file() && !own.is_file() { Ok(Some(nanogpt::read_meta(&vocabulary)?)) } else { Ok(None) }
}

/// The model's shape: the base's where there is one (in its context), otherwise the configuration's with the data's
/// vocabulary.
fn shape(
    config: &RunConfig,
    data: &TrainingData,
    base: Option<&Path>,
    context: Option<usize>,
    named: &[&str],
) -> Result<Config> {
    let tokens = data.tokenizer.as_ref().map(Tokenizer::vocab_size);
    let Some(base) = base else {
        let vocab_size = tokens.unwrap_or(config.model.vocab_size);
        let model = Config { vocab_size, ..config.model.clone() };
        model.validate()?;
        return Ok(model);
    };
    if named.contains(&"init") {
        let message = format!("model.init: the model in {} has its weights already", base.display());
        return Err(Error::Setting(message));
    }
    let model = load_config(base)?;
    let model = Config { block_size: context.unwrap_or(model.block_size), ..model };
    if let Some(tokens) = tokens.filter(|&tokens| tokens > model.vocab_size) {
        let message = format!("the tokenizer has {tokens} tokens, the model {}", model.vocab_size);
        return Err(Error::Data(message));
    }
    // Dropout is how one trains, not what a model is.
    let Config { embd_pdrop, attn_pdrop, resid_pdrop, .. } = config.model;
    Ok(Config { embd_pdrop, attn_pdrop, resid_pdrop, ..model })
}

/// The model to train: a new one, or that of a folder with all that its `config.json` says.
fn model(config: &RunConfig, from: Option<&Path>, device: &Device) -> Result<Loaded> {
    match from {
        Some(from) => {
            let Loaded { gpt, extra } = load(from, device)?;
            let gpt = gpt.with_dropout(&config.model)?.cropped(config.model.block_size)?;
            Ok(Loaded { gpt, extra })
        }
        None => {
            let gpt = Gpt::initialized(config.model.clone(), config.init, config.train.seed, device)?;
            Ok(Loaded { gpt, extra: ExtraKeys::new() })
        }
    }
}

/// Refuses what this machine's memory can't hold, before it is asked for: the moments of one of so many owners.
pub(crate) fn check_memory(config: &RunConfig, ranks: usize) -> Result<()> {
    let Some(available) = machine::available_memory() else { return Ok(()) };
    let plan = Plan::new(&config.model, config.train.batch_size, config.model.block_size);
    // Among several ranks each remembers the moments of what it owns; the first needs all of them when it saves.
    let moments = plan.train_memory.moments;
    let needed = plan.train_bytes - moments + moments / ranks.max(1) as u64;
    if needed > available { Err(Error::Memory { needed, available }) } else { Ok(()) }
}
