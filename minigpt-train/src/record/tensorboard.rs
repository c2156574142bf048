//! Event files that TensorBoard reads: a sequence of framed records, each an `Event` in protobuf, of which the few
//! fields that matter are written by hand.
//!
//! A frame is the length (u64), a checksum of it, the bytes, a checksum of them, all little-endian; the checksums
//! are CRC-32C, masked as TFRecord files have them.

use super::{Error, Result, StepRecord};
use minigpt_files::Action;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Under which names TensorBoard shows a run.
pub mod tag {
    /// Training loss.
    pub const TRAIN_LOSS: &str = "loss/train";
    /// Mean training loss of an epoch.
    pub const EPOCH_LOSS: &str = "loss/epoch";
    /// Validation loss.
    pub const VAL_LOSS: &str = "loss/val";
    /// Learning rate.
    pub const LR: &str = "lr";
    /// Global norm of the gradients; those of a layer stand below it, as `grad_norm/h.0`.
    pub const GRAD_NORM: &str = "grad_norm";
    /// Speed.
    pub const TOKENS_PER_SECOND: &str = "tokens_per_second";
    /// Text that the model made.
    pub const SAMPLE: &str = "sample";
}

/// One event file of a run. Each start of the process writes its own; TensorBoard reads a folder of them as one run.
///
/// Times are seconds since 1970, handed in by the caller.
#[derive(Debug)]
pub struct EventFile {
    out: BufWriter<File>,
    path: PathBuf,
}

impl EventFile {
    /// Begins `events.out.tfevents.<time>.<host>.<pid>` in a folder that exists.
    ///
    /// # Errors
    /// A folder that can't be written.
    pub fn create(folder: &Path, wall_time: f64, host: &str) -> Result<Self> {
        let (path, file) = new_file(folder, &file_name(wall_time, host))?;
        let mut events = Self { out: BufWriter::new(file), path };
        events.write(&event(0, wall_time).text(3, "brain.Event:2"))?;
        events.flush()?;
        Ok(events)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is still there under its name in a folder.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        minigpt_files::is_still_at(self.out.get_ref(), &folder.join(name))
    }

    /// Says that the run begins again at `step`: TensorBoard drops what earlier files of the folder say of it
    /// and of later steps. For a run that resumes.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn restart(&mut self, step: u64, wall_time: f64) -> Result<()> {
        const START: u64 = 1;
        self.write(&event(step, wall_time).message(7, &Message::default().integer(1, START)))
    }

    /// Writes the scalars of a record and flushes them.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn record(&mut self, record: &StepRecord, wall_time: f64) -> Result<()> {
        let scalars = [
            (tag::TRAIN_LOSS, Some(record.loss)),
            (tag::EPOCH_LOSS, record.epoch_loss),
            (tag::VAL_LOSS, record.val_loss),
            (tag::LR, Some(record.lr)),
            (tag::GRAD_NORM, Some(record.grad_norm)),
            (tag::TOKENS_PER_SECOND, Some(record.tokens_per_second)),
        ];
        for (tag, value) in scalars {
            if let Some(value) = value {
                self.scalar(tag, record.step, wall_time, value)?;
            }
        }
        for (layer, &norm) in &record.grad_norms {
            self.scalar(&format!("{}/{layer}", tag::GRAD_NORM), record.step, wall_time, norm)?;
        }
        self.flush()
    }

    /// Writes one number.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn scalar(&mut self, tag: &str, step: u64, wall_time: f64, value: f64) -> Result<()> {
        self.summary(step, wall_time, &Message::default().text(1, tag).float(2, value as f32))
    }

    /// Writes a text, which TensorBoard shows under `<tag>/text_summary`, as Markdown.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn text(&mut self, tag: &str, step: u64, wall_time: f64, text: &str) -> Result<()> {
        const STRING: u64 = 7;
        let shape = Message::default().message(2, &Message::default().integer(1, 1));
        let tensor = Message::default().integer(1, STRING).message(2, &shape).text(8, text);
        let plugin = Message::default().message(1, &Message::default().text(1, "text"));
        let tag = format!("{tag}/text_summary");
        self.summary(
            step,
            wall_time,
            &Message::default().text(1, &tag).message(8, &tensor).message(9, &plugin),
        )
    }

    /// Writes a sample of the model, to be shown letter for letter: as a block of code, which Markdown leaves alone.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn sample(&mut self, step: u64, wall_time: f64, text: &str) -> Result<()> {
        let block: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
        self.text(tag::SAMPLE, step, wall_time, &block.join("\n"))?;
        self.flush()
    }

    /// Passes everything to the operating system, where it survives the end of this process.
    ///
    /// # Errors
    /// A disk that is full or gone.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(Error::io(Action::Write, &self.path))
    }

    fn summary(&mut self, step: u64, wall_time: f64, value: &Message) -> Result<()> {
        self.write(&event(step, wall_time).message(5, &Message::default().message(1, value)))
    }

    fn write(&mut self, event: &Message) -> Result<()> {
        self.out.write_all(&frame(&event.0)).map_err(Error::io(Action::Write, &self.path))
    }
}

/// Creates a file of this name, or of the next that is free: `name.1`, `name.2`, …
fn new_file(folder: &Path, name: &str) -> Result<(PathBuf, File)> {
    let (mut path, mut taken) = (folder.join(name), 0);
    loop {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => taken += 1,
            Err(e) => return Err(Error::io(Action::Create, &path)(e)),
        }
        path = folder.join(format!("{name}.{taken}"));
    }
}

/// TensorBoard reads the files of a folder in the order of their names, so the time comes first, with all its digits.
fn file_name(wall_time: f64, host: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let host: String = host.chars().map(plain).collect();
    format!("events.out.tfevents.{:010}.{host}.{}", wall_time as u64, std::process::id())
}

/// An `Event` of a step, still without what happened.
fn event(step: u64, wall_time: f64) -> Message {
    let event = Message::default().double(1, wall_time);
    if step > 0 { event.integer(2, step) } else { event }
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &checksum(&length), bytes, &checksum(bytes)].concat()
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// A protobuf message: fields, each a number with a kind, and a value of that kind.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn integer(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Seven bits a byte, the lowest first; all but the last byte have the highest bit set.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What tensorboard 2.21 writes with its own `RecordWriter(file).write(event.SerializeToString())` for
    ///
    /// ```python
    /// Event(wall_time=1.5e9, file_version="brain.Event:2")
    /// Event(wall_time=1.5e9 + 0.5, step=300, summary=Summary(value=[Summary.Value(tag="lr", simple_value=0.25)]))
    /// Event(wall_time=1.5e9 + 1, step=300, session_log=SessionLog(status=SessionLog.START))
    /// Event(wall_time=1.5e9 + 1, step=7, summary=Summary(value=[Summary.Value(
    ///     tag="sample/text_summary",
    ///     metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
    ///     tensor=TensorProto(dtype="DT_STRING", string_val=["你好".encode()],
    ///                        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])))]))
    /// ```
    const THEIRS: [&str; 4] = [
        "1800000000000000a37f4b2209000000c00b5ad6411a0d627261696e2e4576656e743a324ca9a464",
        "19000000000000008bf1082809000020c00b5ad64110ac022a0b0a090a026c72150000803e327c0557",
        "100000000000000095fbfe1809000040c00b5ad64110ac023a020801eee97708",
        "40000000000000002817f49509000040c00b5ad64110072a330a310a1373616d706c652f746578745f73756d6d617279\
         421008071204120208014206e4bda0e5a5bd4a080a060a047465787402d58178",
    ];

    #[test]
    fn the_bytes_are_those_that_tensorboard_writes() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path(), 1.5e9, "here").unwrap();
        events.scalar(tag::LR, 300, 1.5e9 + 0.5, 0.25).unwrap();
        events.restart(300, 1.5e9 + 1.0).unwrap();
        events.text(tag::SAMPLE, 7, 1.5e9 + 1.0, "你好").unwrap();
        events.flush().unwrap();
        assert_eq!(hex(&fs::read(events.path()).unwrap()), THEIRS.concat());
    }

    #[test]
    fn a_record_gives_a_validation_loss_only_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path(), 0.0, "here").unwrap();
        let mentions = |events: &EventFile, tag: &str| {
            fs::read(events.path())
                .unwrap()
                .windows(tag.len())
                .filter(|bytes| *bytes == tag.as_bytes())
                .count()
        };
        events.record(&StepRecord::default(), 1.0).unwrap();
        assert_eq!((mentions(&events, tag::TRAIN_LOSS), mentions(&events, tag::VAL_LOSS)), (1, 0));
        let (epoch_loss, val_loss) = (Some(3.0), Some(2.0));
        events.record(&StepRecord { epoch_loss, val_loss, ..StepRecord::default() }, 1.0).unwrap();
        assert_eq!(mentions(&events, tag::EPOCH_LOSS), 1);
        assert_eq!((mentions(&events, tag::TRAIN_LOSS), mentions(&events, tag::VAL_LOSS)), (2, 1));
        assert_eq!(mentions(&events, tag::TOKENS_PER_SECOND), 2);
        let grad_norms = [("h.0".to_owned(), 0.5)].into();
        events.record(&StepRecord { grad_norms, ..StepRecord::default() }, 1.0).unwrap();
        assert_eq!(mentions(&events, "grad_norm/h.0"), 1);
    }

    #[test]
    fn a_sample_is_a_block_of_code() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path(), 0.0, "here").unwrap();
        events.sample(1, 0.0, "# ROMEO:\n\n  *Ay*").unwrap();
        let bytes = fs::read(events.path()).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("    # ROMEO:\n    \n      *Ay*"));
    }

    #[test]
    fn names_are_the_usual_ones_and_never_taken_twice() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = ["my/host", "my/host", "my/host"]
            .iter()
            .map(|host| EventFile::create(folder.path(), 1_700_000_000.9, host).unwrap())
            .map(|events| events.path().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let usual = format!("events.out.tfevents.1700000000.my_host.{}", std::process::id());
        assert_eq!(names, [usual.clone(), format!("{usual}.1"), format!("{usual}.2")]);
        assert!(EventFile::create(&folder.path().join("none"), 0.0, "here").is_err());
    }
}
