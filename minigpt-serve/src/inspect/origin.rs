//! How a model was trained and on what, from the folder of the run that it lies in: its `config.toml`, and the first rows of the data
//! that this names. The page takes its examples from here, and states nothing about a training run that is not written there.

use minigpt_data::{
    Columns, CorpusKind, Prepared, ReadOptions, Role, Source, TextChunk, TextEncoding, builtin,
};
use minigpt_tokenizer::{SEP, Tokenizer};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The longest configuration that is read, in bytes.
const LARGEST_CONFIG: u64 = 1 << 20;
/// A model lies this many folders below its run at most: `RUN/best`, `RUN/snapshots/step-10`.
const DEPTH: usize = 2;
/// Examples that are handed out.
const EXAMPLES: usize = 48;
/// Rows from which they are taken, and characters of a text.
const ROWS: u64 = 2000;
const CHARACTERS: u64 = 1 << 16;
/// Tokens of prepared data from which they are taken.
const TOKENS: u64 = 1 << 14;
/// The longest example, in characters; longer ones make no good beginning.
const LONGEST: usize = 160;
/// Characters of a text to begin with; fewer where words are written without spaces.
const BEGINNING: usize = 40;
const UNSPACED_BEGINNING: usize = 12;

/// What the run of a model says about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Origin {
    /// The folder of the run.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Which tokens of an example the loss counted, `all` or `answer`; not set for plain text.
    pub loss_on: Option<String>,
    /// `adamw` or `muon`.
    pub optimizer: Option<String>,
    /// Examples of the data, or the prompt of the run's samples if the data is no longer there.
    pub examples: Vec<ModelExample>,
}

/// A row of the data, or the beginning of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum ModelExample {
    /// A question; the answer is empty if it is not known. Of an answer of several tokens also its beginning.
    Pair {
        question: String,
        answer: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        begun: Option<String>,
    },
    /// The beginning of a text.
    Text { text: String },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RunFile {
    data: DataSection,
    train: TrainSection,
    sample: SampleSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DataSection {
    path: String,
    kind: Option<CorpusKind>,
    columns: Columns,
    encoding: Option<TextEncoding>,
    loss_on: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrainSection {
    optimizer: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampleSection {
    prompt: String,
}

impl Origin {
    /// The origin of the model in a folder; none if the folder is not part of a run.
    pub fn of(model: &Path) -> Option<Self> {
        let model = std::path::absolute(model).ok()?;
        let folder = model.ancestors().take(DEPTH + 1).find(|folder| folder.join("config.toml").is_file())?;
        let text = minigpt_files::read_text(&folder.join("config.toml"), LARGEST_CONFIG).ok()?;
        let run: RunFile = toml::from_str(&text).ok()?;
        let examples = match run.data.examples(folder) {
            examples if examples.is_empty() => run.sample.example().into_iter().collect(),
            examples => examples,
        };
        let asks = run.data.kind == Some(CorpusKind::Qa)
            || examples.iter().any(|example| matches!(example, ModelExample::Pair { .. }));
        Some(Self {
            folder: folder.to_owned(),
            loss_on: run.data.loss_on.filter(|_| asks),
            optimizer: run.train.optimizer,
            examples,
        })
    }
}

impl Origin {
    /// Adds the beginnings of the answers, as the model with this tokenizer reads them.
    pub fn begin_answers(&mut self, tokenizer: &Tokenizer) {
        for example in &mut self.examples {
            if let ModelExample::Pair { question, answer, begun } = example {
                *begun = beginning(tokenizer, &format!("{question}{SEP}"), answer);
            }
        }
    }
}

/// The beginning of an answer up to its last two tokens, whose end is worth guessing. It is cut where it is read as the same tokens as
/// in the whole answer, or the model would meet tokens that it never learned in this place.
fn beginning(tokenizer: &Tokenizer, question: &str, answer: &str) -> Option<String> {
    let before = tokenizer.encode_with_special(question).ok()?.len();
    let whole = tokenizer.encode_with_special(&format!("{question}{answer}")).ok()?;
    let tokens = whole.len().checked_sub(before).filter(|&tokens| tokens > 1)?;
    (1..=tokens.saturating_sub(2).max(1)).rev().find_map(|kept| {
        let ids = &whole[..before + kept];
        let text = tokenizer.decode(&ids[before..]).ok()?;
        let same =
            tokenizer.encode_with_special(&format!("{question}{text}")).is_ok_and(|again| again == ids);
        (same && !text.is_empty() && answer.starts_with(&text)).then_some(text)
    })
}

impl DataSection {
    /// Rows of the data, spread over its beginning; none if it is not where it was.
    fn examples(&self, run: &Path) -> Vec<ModelExample> {
        let source = self.place(run).and_then(|path| {
            let options = ReadOptions { encoding: self.encoding, columns: self.columns.clone() };
            Source::open(&path, self.kind, &options).ok()
        });
        spread(source.map(rows).unwrap_or_default())
    }

    /// Where the data is: a relative path is relative to the folder in which the run was started, which most often is the one that
    /// holds `runs/NAME`, and otherwise may be that of the server.
    fn place(&self, run: &Path) -> Option<PathBuf> {
        if self.path == builtin::NAME {
            return Some(builtin::NAME.into());
        }
        let beside = run.parent().and_then(Path::parent).map(|folder| folder.join(&self.path));
        let there = |path: &PathBuf| !self.path.is_empty() && (path.is_file() || path.is_dir());
        beside.into_iter().chain([PathBuf::from(&self.path)]).find(there)
    }
}

impl SampleSection {
    fn example(&self) -> Option<ModelExample> {
        let prompt = self.prompt.trim();
        let text = || ModelExample::Text { text: prompt.to_owned() };
        let pair = |question: &str| ModelExample::Pair {
            question: question.trim().to_owned(),
            answer: String::new(),
            begun: None,
        };
        (!prompt.is_empty()).then(|| prompt.strip_suffix("<sep>").map_or_else(text, pair))
    }
}

/// The first rows of data.
fn rows(source: Source) -> Vec<ModelExample> {
    let mut found = Vec::new();
    match source {
        Source::BuiltIn => {
            found.extend(builtin::train().into_iter().map(|pair| ModelExample::Pair {
                question: pair.question,
                answer: pair.answer,
                begun: None,
            }));
        }
        Source::Records(file) => {
            // What was read before something went wrong is still an example.
            let _ = file.read(Some(ROWS), &mut |_, record| {
                // Of a longer conversation the last answer belongs to another question than the first.
                if record.turns.iter().filter(|turn| turn.role == Role::User).count() == 1
                    && let Some((question, answer)) = record.question_and_answer()
                {
                    let (question, answer) = (question.trim().to_owned(), answer.trim().to_owned());
                    found.push(ModelExample::Pair { question, answer, begun: None });
                }
                Ok(())
            });
        }
        Source::Text(text) => {
            let mut all = String::new();
            let _ = text.read(Some(CHARACTERS), &mut |chunk| {
                match chunk {
                    TextChunk::Text(text) => all.push_str(text),
                    TextChunk::NextFile => all.push('\n'),
                }
                Ok(())
            });
            found.extend(beginnings(&all));
        }
        Source::Tokens(folder) => {
            if let Ok(Prepared { train, tokenizer: Some(tokenizer), .. }) = Prepared::open(&folder) {
                let mut ids = Vec::new();
                let read = train.read(0..train.len().min(TOKENS), &mut ids);
                let text = read.ok().and_then(|()| tokenizer.decode(&ids).ok()).unwrap_or_default();
                found.extend(beginnings(&text));
            }
        }
        Source::Parts { train, .. } => found = rows(*train),
        Source::Random => {}
    }
    found
}

/// The beginnings of the lines of a text that are long enough to be recognised.
fn beginnings(text: &str) -> impl Iterator<Item = ModelExample> + '_ {
    text.lines().map(str::trim).filter(|line| line.chars().count() >= 8).map(|line| {
        let unspaced = line.chars().take(UNSPACED_BEGINNING).all(|c| c != ' ');
        let most = if unspaced { UNSPACED_BEGINNING } else { BEGINNING };
        let end = line.char_indices().nth(most).map_or(line.len(), |(at, _)| at);
        let end = if end < line.len() { line[..end].rfind(' ').unwrap_or(end) } else { end };
        ModelExample::Text { text: line[..end].trim_end().to_owned() }
    })
}

/// Different short examples, evenly from all.
fn spread(all: Vec<ModelExample>) -> Vec<ModelExample> {
    let mut seen = HashSet::new();
    let short = |example: &ModelExample| {
        let (asked, length) = match example {
            ModelExample::Pair { question, answer, .. } => {
                (question, question.chars().count() + answer.chars().count())
            }
            ModelExample::Text { text } => (text, text.chars().count()),
        };
        !asked.is_empty() && length <= LONGEST && seen.insert(asked.clone())
    };
    let different: Vec<ModelExample> = all.into_iter().filter(short).collect();
    let most = EXAMPLES.min(different.len());
    (0..most).map(|i| different[i * different.len() / most].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A run `runs/a` in a folder that also holds its data.
    fn run(folder: &Path, config: &str) -> PathBuf {
        let best = folder.join("runs/a/best");
        fs::create_dir_all(&best).unwrap();
        fs::write(folder.join("runs/a/config.toml"), config).unwrap();
        best
    }

    fn pair(question: &str, answer: &str) -> ModelExample {
        ModelExample::Pair { question: question.to_owned(), answer: answer.to_owned(), begun: None }
    }

    #[test]
    fn examples_are_rows_of_the_data_that_the_run_names() {
        let dir = tempfile::tempdir().unwrap();
        let rows: String =
            (0..200).map(|i| format!("{{\"question\": \"Q{}?\", \"answer\": \"A{i}\"}}\n", i / 2)).collect();
        fs::write(dir.path().join("d.jsonl"), rows).unwrap();
        let best = run(
            dir.path(),
            "[data]\npath = \"d.jsonl\"\nloss_on = \"answer\"\n[train]\noptimizer = \"muon\"\n[sample]\nprompt = \"x\"\n",
        );
        let origin = Origin::of(&best).unwrap();
        assert_eq!((origin.loss_on.as_deref(), origin.optimizer.as_deref()), (Some("answer"), Some("muon")));
        assert_eq!(origin.examples.len(), EXAMPLES);
        assert_eq!(origin.examples[0], pair("Q0?", "A0"));
        assert_eq!(origin.examples[24], pair("Q50?", "A100"), "spread over the data, each question once");
        assert_eq!(origin.folder, std::path::absolute(dir.path().join("runs/a")).unwrap());
    }

    #[test]
    fn without_its_data_a_run_still_has_the_prompt_of_its_samples() {
        let dir = tempfile::tempdir().unwrap();
        let best = run(
            dir.path(),
            "[data]\npath = \"gone.jsonl\"\n[sample]\nprompt = \"法国的首都是哪里？<sep>\"\n",
        );
        assert_eq!(Origin::of(&best).unwrap().examples, [pair("法国的首都是哪里？", "")]);
    }

    #[test]
    fn of_a_text_examples_are_beginnings_of_lines_and_the_loss_counts_no_answers() {
        let dir = tempfile::tempdir().unwrap();
        let long = "Now is the winter of our discontent made glorious summer by this sun of York";
        fs::write(
            dir.path().join("d.txt"),
            format!("I\n\n{long}\n话说天下大势，分久必合，合久必分。周末七国分争\n"),
        )
        .unwrap();
        let best = run(dir.path(), "[data]\npath = \"d.txt\"\nloss_on = \"all\"\n");
        let origin = Origin::of(&best).unwrap();
        assert_eq!(origin.loss_on, None);
        let text = |text: &str| ModelExample::Text { text: text.to_owned() };
        assert_eq!(
            origin.examples,
            [text("Now is the winter of our discontent"), text("话说天下大势，分久必合，")]
        );
    }

    #[test]
    fn an_answer_is_begun_between_tokens_as_the_model_reads_them() {
        let gpt2 = Tokenizer::gpt2();
        let cut = |answer: &str| beginning(&gpt2, "Where?<|endoftext|>", answer);
        assert_eq!(cut("The capital of Chile is Santiago.").as_deref(), Some("The capital of Chile is"));
        assert_eq!(cut("Paris"), None, "one token has no beginning");
        // No cut through the bytes of a character.
        assert_eq!(cut("北京是").map(|text| "北京是".starts_with(&text)), Some(true));
    }

    #[test]
    fn a_model_outside_a_run_has_no_origin_and_a_broken_configuration_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("models/gpt2")).unwrap();
        assert_eq!(Origin::of(&dir.path().join("models/gpt2")), None);
        assert_eq!(Origin::of(&run(dir.path(), "[data\n")), None);
    }
}
