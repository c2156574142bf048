//! Question/answer examples: cut to `max_length`, padded, and learned as a whole or the answers alone.

use crate::bad_lines::BadLines;
use crate::batch::{Batch, MAX_COLS};
use crate::error::{Error, OptionError, Result, Unsuitable};
use crate::loader::Dataset;
use crate::name::DataName;
use crate::qa_encoder::{EncodedRecord, Encoder, ExampleFormat};
use crate::record::Record;
use crate::record_file::RecordFile;
use crate::tokens::hex;
use minigpt_tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What the loss counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossOn {
    /// The whole sequence.
    #[default]
    All,
    /// What the model says: answers and their separators.
    Answer,
}

/// How wide a batch is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// Always for `max_length`.
    #[default]
    MaxLength,
    /// As its longest example: the same loss with less to compute.
    Longest,
}

/// How examples are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QaOptions {
    /// Longer sequences are cut to this many ids, separators included. A row has one position fewer, since the
    /// last id is only a target.
    pub max_length: usize,
    /// What is learned.
    pub loss_on: LossOn,
    /// How wide batches are.
    pub padding: Padding,
}

/// What became of the records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QaSummary {
    /// Examples in the set.
    pub examples: u64,
    /// Of them, cut to `max_length`.
    pub cut: u64,
    /// Records of more than two turns, in the whole of the data.
    pub conversations: u64,
    /// Records left out, because nothing to be learned is within `max_length`.
    pub nothing_to_learn: u64,
}

/// Examples in memory, already encoded.
#[derive(Debug, Clone)]
pub struct QaDataset {
    options: QaOptions,
    pad: u32,
    /// The ids that end an answer.
    stops: Vec<u32>,
    ids: Vec<u32>,
    learned: Vec<bool>,
    /// Where each example ends in `ids`.
    ends: Vec<usize>,
    /// The example that each record became, if there was anything to learn.
    examples: Vec<Option<usize>>,
    /// Of each example, whether it was cut.
    was_cut: Vec<bool>,
    summary: QaSummary,
}

impl QaDataset {
    /// Starts an empty set.
    ///
    /// # Errors
    /// A `max_length` without room for one prediction, or a vocabulary without a separator.
    pub fn new(tokenizer: &Tokenizer, options: QaOptions) -> Result<Self> {
        Self::of(&Encoder::new(tokenizer, None)?, options)
    }

    fn of(encoder: &Encoder, options: QaOptions) -> Result<Self> {
        Self::empty(encoder.pad(), encoder.ends(), options)
    }

    fn empty(pad: u32, stops: Vec<u32>, options: QaOptions) -> Result<Self> {
        let length = options.max_length;
        if !(2..=MAX_COLS).contains(&length) {
            return Err(OptionError::MaxLength { length, most: MAX_COLS }.into());
        }
        let (ids, learned, ends) = (Vec::new(), Vec::new(), Vec::new());
        let (examples, was_cut, summary) = (Vec::new(), Vec::new(), QaSummary::default());
        Ok(QaDataset { options, pad, stops, ids, learned, ends, examples, was_cut, summary })
    }

    /// Rows of ids as they are, all of them learned.
    ///
    /// # Errors
    /// Rows without room for one prediction.
    pub fn from_rows(rows: Vec<Vec<u32>>, options: QaOptions) -> Result<Self> {
        let mut set = Self::empty(0, Vec::new(), options)?;
        for ids in rows {
            let answer = vec![true; ids.len()];
            set.add(EncodedRecord { ids, answer });
        }
        set.check(&DataName::Memory)?;
        Ok(set)
    }

    /// Encodes records, or the first `limit` of them.
    ///
    /// # Errors
    /// No record with anything to learn, or a character that the vocabulary lacks.
    pub fn from_records<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        tokenizer: &Tokenizer,
        options: QaOptions,
        limit: Option<u64>,
    ) -> Result<Self> {
        Self::encoded(records, &Encoder::new(tokenizer, None)?, options, limit)
    }

    pub(crate) fn encoded<'a>(
        records: impl IntoIterator<Item = &'a Record>,
        encoder: &Encoder,
        options: QaOptions,
        limit: Option<u64>,
    ) -> Result<Self> {
        let mut set = Self::of(encoder, options)?;
        for record in records.into_iter().take(limit.map_or(usize::MAX, |limit| limit as usize)) {
            set.push(encoder, record)?;
        }
        set.check(&DataName::Memory)?;
        Ok(set)
    }

    /// Encodes the good lines of a file, or the first `limit` of them, and says which lines were bad.
    ///
    /// # Errors
    /// No line with anything to learn, a character that the vocabulary lacks (with its line), or an example that can't
    /// be written in the format.
    pub fn from_lines(
        file: &RecordFile,
        tokenizer: &Tokenizer,
        format: Option<&ExampleFormat>,
        options: QaOptions,
        limit: Option<u64>,
    ) -> Result<(Self, BadLines)> {
        let encoder = Encoder::new(tokenizer, format)?;
        let mut set = Self::of(&encoder, options)?;
        let summary = file.read(limit, &mut |_, record| set.push(&encoder, &record))?;
        set.check(file.name())?;
        Ok((set, summary.bad))
    }

    /// Adds one record.
    pub(crate) fn push(&mut self, encoder: &Encoder, record: &Record) -> Result<()> {
        self.add(encoder.encode(record)?);
        self.summary.conversations += u64::from(record.turns.len() > 2);
        Ok(())
    }

    fn add(&mut self, mut encoded: EncodedRecord) {
        let cut = encoded.ids.len() > self.options.max_length;
        encoded.ids.truncate(self.options.max_length);
        encoded.answer.truncate(self.options.max_length);
        let all = self.options.loss_on == LossOn::All;
        let mut learned = encoded.answer.into_iter().map(|answer| answer || all);
        // The first id is given, never predicted.
        if !learned.clone().skip(1).any(|learned| learned) {
            self.summary.nothing_to_learn += 1;
            self.examples.push(None);
            return;
        }
        self.examples.push(Some(self.ends.len()));
        self.ids.append(&mut encoded.ids);
        self.learned.extend(&mut learned);
        self.ends.push(self.ids.len());
        self.summary.examples += 1;
        self.was_cut.push(cut);
        self.summary.cut += u64::from(cut);
    }

    /// How many records there were, with those in which there is nothing to learn.
    pub(crate) fn records(&self) -> u64 {
        self.examples.len() as u64
    }

    /// Some of the records, in this order.
    pub(crate) fn select(&self, records: &[u32]) -> Self {
        let (ids, learned, ends) = (Vec::new(), Vec::new(), Vec::new());
        let summary = QaSummary { conversations: self.summary.conversations, ..QaSummary::default() };
        let (options, pad, examples, was_cut) = (self.options, self.pad, Vec::new(), Vec::new());
        let stops = self.stops.clone();
        let mut set = QaDataset { options, pad, stops, ids, learned, ends, examples, was_cut, summary };
        for &record in records {
            let Some(example) = self.examples[record as usize] else {
                set.summary.nothing_to_learn += 1;
                set.examples.push(None);
                continue;
            };
            let (ids, learned) = self.example(example);
            set.examples.push(Some(set.ends.len()));
            set.ids.extend(ids);
            set.learned.extend(learned);
            set.ends.push(set.ids.len());
            set.was_cut.push(self.was_cut[example]);
            set.summary.examples += 1;
            set.summary.cut += u64::from(self.was_cut[example]);
        }
        set
    }

    /// These examples and as many of other ones. Few examples are repeated, at most `most` times, so that as many different
    /// others as possible stand beside them.
    pub fn with_rehearsal(&self, others: &Self, most: u64) -> Result<Self> {
        let (own, old) = (self.records(), others.records());
        if own == 0 || old == 0 {
            return Err(Unsuitable::NothingToRehearse.into());
        }
        let repeats = (old / own).clamp(1, most.max(1));
        let (rows, all) = (own * repeats, |count: u64| (0..count).map(|i| i as u32).collect::<Vec<_>>());
        // Evenly spread over the others, or again from their beginning where there are too few.
        let others_at = |i: u64| if rows <= old { (i * old / rows) as u32 } else { (i % old) as u32 };
        let mut set = self.select(&all(own).repeat(repeats as usize));
        set.append(others.select(&(0..rows).map(others_at).collect::<Vec<_>>()));
        Ok(set)
    }

    /// Adds all of another set.
    pub fn append(&mut self, other: Self) {
        let (examples, ids) = (self.ends.len(), self.ids.len());
        self.ids.extend(other.ids);
        self.learned.extend(other.learned);
        self.ends.extend(other.ends.iter().map(|end| ids + end));
        self.examples.extend(other.examples.iter().map(|example| example.map(|at| examples + at)));
        self.was_cut.extend(other.was_cut);
        self.summary.examples += other.summary.examples;
        self.summary.cut += other.summary.cut;
        self.summary.nothing_to_learn += other.summary.nothing_to_learn;
    }

    /// At most `most` of the examples, evenly spread over the set.
    pub fn spread(self, most: u64) -> Self {
        let kept: Vec<u32> =
            (0..self.records()).filter(|&i| self.examples[i as usize].is_some()).map(|i| i as u32).collect();
        let (all, most) = (kept.len() as u64, most.max(1));
        if all <= most {
            return self;
        }
        let chosen: Vec<u32> = (0..most).map(|i| kept[(i * all / most) as usize]).collect();
        self.select(&chosen)
    }

    /// Returns an error if the set has no examples.
    pub(crate) fn check(&self, name: &DataName) -> Result<()> {
        if self.examples.is_empty() {
            return Err(Error::NoExamples { name: name.clone() });
        }
        if self.ends.is_empty() {
            return Err(Error::NothingToLearn { name: name.clone(), max_length: self.options.max_length });
        }
        Ok(())
    }

    /// What became of the records.
    pub fn summary(&self) -> QaSummary {
        self.summary
    }

    /// The ids that end an answer.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stops
    }

    /// How examples were made.
    pub fn options(&self) -> &QaOptions {
        &self.options
    }

    /// Ids of all examples together.
    pub fn tokens(&self) -> u64 {
        self.ids.len() as u64
    }

    /// One example: its ids, and for each whether predicting it counts.
    pub fn example(&self, index: usize) -> (&[u32], &[bool]) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        let range = start..self.ends[index];
        (&self.ids[range.clone()], &self.learned[range])
    }
}

impl Dataset for QaDataset {
    fn examples(&self) -> u64 {
        self.ends.len() as u64
    }

    fn cols(&self) -> usize {
        self.options.max_length - 1
    }

    fn collate(&self, examples: &[u64]) -> Result<Batch> {
        let example = |&index: &u64| self.example(index as usize);
        let longest = examples.iter().map(|i| example(i).0.len()).max().unwrap_or(2);
        let width = match self.options.padding {
            Padding::MaxLength => self.options.max_length,
            Padding::Longest => longest,
        };
        let mut batch = Batch::with_capacity(examples.len(), width - 1);
        for index in examples {
            let (ids, learned) = example(index);
            batch.push(ids, |at| learned[at], self.pad);
        }
        Ok(batch)
    }

    fn fingerprint(&self) -> Result<String> {
        let mut hash = Sha256::new();
        hash.update((self.ends.len() as u64).to_le_bytes());
        self.ends.iter().for_each(|&end| hash.update((end as u64).to_le_bytes()));
        self.ids.iter().for_each(|id| hash.update(id.to_le_bytes()));
        self.learned.iter().for_each(|&learned| hash.update([u8::from(learned)]));
        Ok(hex(&hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::IGNORE;
    use crate::loader::{Loader, Order, Sampling};
    use crate::record::{Role, Turn};
    use crate::tokenizer_choice::TokenizerChoice;
    use proptest::prelude::*;

    fn options(max_length: usize, loss_on: LossOn, padding: Padding) -> QaOptions {
        QaOptions { max_length, loss_on, padding }
    }

    fn set(records: &[Record], options: QaOptions) -> QaDataset {
        let tokenizer = TokenizerChoice::Char.for_records(records).unwrap();
        QaDataset::from_records(records, &tokenizer, options, None).unwrap()
    }

    #[test]
    fn the_whole_sequence_is_learned_and_padding_is_not() {
        // <pad> <unk> <sep> a b c d = 0 1 2 3 4 5 6
        let set = set(&[Record::pair("ab", "cd")], options(8, LossOn::All, Padding::MaxLength));
        let batch = set.collate(&[0]).unwrap();
        assert_eq!(batch.inputs, [3, 4, 2, 5, 6, 0, 0]);
        assert_eq!(batch.targets, [4, 2, 5, 6, 2, IGNORE, IGNORE]);
        assert_eq!(batch.lengths, [5]);
    }

    #[test]
    fn of_an_answer_alone_its_separator_is_learned_too() {
        let set = set(&[Record::pair("ab", "cd")], options(8, LossOn::Answer, Padding::Longest));
        let batch = set.collate(&[0]).unwrap();
        assert_eq!(batch.inputs, [3, 4, 2, 5, 6]);
        assert_eq!(batch.targets, [IGNORE, IGNORE, 5, 6, 2]);
    }

    #[test]
    fn in_a_conversation_every_answer_is_learned() {
        let turn = |role, text: &str| Turn { role, text: text.into() };
        let talk = Record {
            turns: vec![
                turn(Role::System, "s"),
                turn(Role::User, "u"),
                turn(Role::Assistant, "a"),
                turn(Role::User, "v"),
                turn(Role::Assistant, "b"),
            ],
        };
        // a b s u v = 3 4 5 6 7
        let set = set(&[talk], options(64, LossOn::Answer, Padding::Longest));
        let batch = set.collate(&[0]).unwrap();
        assert_eq!(batch.inputs, [5, 2, 6, 2, 3, 2, 7, 2, 4]);
        let i = IGNORE;
        assert_eq!(batch.targets, [i, i, i, 3, 2, i, i, 4, 2]);
    }

    #[test]
    fn what_is_too_long_is_cut_and_what_leaves_nothing_to_learn_is_left_out() {
        let records = [Record::pair("ab", "cd"), Record::pair("abcd", "a"), Record::pair("a", "b")];
        let set = set(&records, options(4, LossOn::Answer, Padding::MaxLength));
        assert_eq!(set.summary(), QaSummary { examples: 2, cut: 1, nothing_to_learn: 1, conversations: 0 });
        let batch = set.collate(&[0, 1]).unwrap();
        assert_eq!(batch.inputs, [3, 4, 2, 3, 2, 4]);
        assert_eq!(batch.targets, [IGNORE, IGNORE, 5, IGNORE, 4, 2]);
        let tokenizer = TokenizerChoice::Char.for_records(&records).unwrap();
        let one = &records[1..2];
        let options = options(4, LossOn::Answer, Padding::Longest);
        let error = QaDataset::from_records(one, &tokenizer, options, None).unwrap_err().to_string();
        assert!(error.contains("nothing to learn"), "{error}");
    }

    #[test]
    fn half_of_what_is_learned_with_a_rehearsal_are_others() {
        let records = |letter: char, count: usize| -> Vec<Record> {
            (0..count)
                .map(|i| Record::pair(letter.to_string().repeat(i % 5 + 1), letter.to_string()))
                .collect()
        };
        let (own, old) = (records('a', 3), records('b', 20));
        let tokenizer = TokenizerChoice::Char.for_records(own.iter().chain(&old)).unwrap();
        let options = options(9, LossOn::All, Padding::Longest);
        let set = |records: &[Record]| QaDataset::from_records(records, &tokenizer, options, None).unwrap();
        let a = tokenizer.encode("a").unwrap()[0];
        // Own examples, and how often each may be repeated; then how many there are of each kind.
        for (own, old, most, half) in [(&own, &old, 20, 18), (&own, &old, 2, 6), (&old, &own, 20, 20)] {
            let both = set(own).with_rehearsal(&set(old), most).unwrap();
            let of_a = (0..both.examples() as usize).filter(|&i| both.example(i).0.contains(&a)).count();
            assert_eq!((both.examples() as usize, of_a), (2 * half, half));
            assert_eq!(both.collate(&[0, 2 * half as u64 - 1]).unwrap().rows, 2);
        }
    }

    #[test]
    fn a_character_without_a_token_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qa.jsonl");
        std::fs::write(
            &path,
            "bad\n{\"question\":\"a\",\"answer\":\"b\"}\n{\"question\":\"aé\",\"answer\":\"b\"}\n",
        )
        .unwrap();
        let file = RecordFile::open(&path, &crate::record_file::ReadOptions::default()).unwrap();
        let strict = minigpt_tokenizer::CharTokenizer::from_text(&["<sep>"], "ab".chars()).unwrap();
        let options = options(9, LossOn::All, Padding::Longest);
        let error = QaDataset::from_lines(&file, &Tokenizer::Char(strict), None, options, None).unwrap_err();
        assert!(error.to_string().ends_with("qa.jsonl, line 3"), "{error}");
        let tokenizer = TokenizerChoice::Char.for_lines(&file, None).unwrap();
        let (set, bad) = QaDataset::from_lines(&file, &tokenizer, None, options, Some(1)).unwrap();
        assert_eq!((set.examples(), bad.total), (1, 1));
    }

    #[test]
    fn fingerprints_tell_sets_and_losses_apart() {
        let one = [Record::pair("ab", "c")];
        let all = options(9, LossOn::All, Padding::Longest);
        let of = |records: &[Record], options| set(records, options).fingerprint().unwrap();
        assert_eq!(of(&one, all), of(&one, options(9, LossOn::All, Padding::MaxLength)));
        assert_ne!(of(&one, all), of(&one, options(9, LossOn::Answer, Padding::Longest)));
        assert_ne!(of(&one, all), of(&[Record::pair("a", "bc")], all));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_epoch_of_batches_holds_every_example_once_whatever_the_width(
            texts in proptest::collection::vec(("[a-e中]{0,9}", "[a-e中]{0,9}"), 1..20),
            max_length in 2_usize..24, batch_size in 1_usize..5, answers: bool, longest: bool, seed: u64,
        ) {
            let records: Vec<Record> = texts.iter().map(|(q, a)| Record::pair(q, a)).collect();
            let loss_on = if answers { LossOn::Answer } else { LossOn::All };
            let padding = if longest { Padding::Longest } else { Padding::MaxLength };
            let tokenizer = TokenizerChoice::Char.for_records(&records).unwrap();
            let options = QaOptions { max_length, loss_on, padding };
            let Ok(set) = QaDataset::from_records(&records, &tokenizer, options, None) else { return Ok(()) };
            let mut expected: Vec<Vec<u32>> =
                (0..set.examples()).map(|i| set.example(i as usize).0.to_vec()).collect();
            let sampling = Sampling { batch_size, order: Order::Shuffled, seed, drop_last: false };
            let mut loader = Loader::new(set, sampling).unwrap();
            let mut seen = Vec::new();
            for _ in 0..loader.batches_per_epoch() {
                let batch = loader.next_batch().unwrap();
                prop_assert_eq!(batch.inputs.len(), batch.rows * batch.cols);
                prop_assert!(batch.cols < max_length);
                for row in 0..batch.rows {
                    let at = row * batch.cols..row * batch.cols + batch.lengths[row];
                    let mut ids = batch.inputs[at.clone()].to_vec();
                    for (i, &target) in batch.targets[at.clone()].iter().enumerate() {
                        prop_assert!(target == IGNORE && answers || ids.get(i + 1).is_none_or(|&next| next == target));
                    }
                    prop_assert!(batch.targets[at.clone()].iter().any(|&target| target != IGNORE));
                    ids.push(batch.targets[at.end - 1]);
                    seen.push(ids);
                }
            }
            // A last id that is not learned can't be told from the batch: compare without it.
            expected.iter_mut().chain(&mut seen).for_each(|ids| ids.truncate(ids.len() - 1));
            expected.sort();
            seen.sort();
            prop_assert_eq!(seen, expected);
        }
    }
}
