//! Converts models of any format for other tools. Files are written beside their destination, checked, and only then moved
//! there.

use crate::Progress;
use crate::chat_template::ChatTemplate;
use crate::check::check_written;
use crate::error::{Error, ModelFileProblem, Result};
use crate::gguf::FileType;
use crate::hugging_face::{self, SaveOptions};
use crate::mapped_model::{ExtraKeys, MappedModel, TypeCount};
use crate::nanogpt::DATASET;
use crate::on_disk::{FileFormat, OnDisk};
use crate::other_tools::ConversionNote;
use crate::{gguf, nanogpt};
use minigpt_files::{NewFolder, OutputFolder, is_there, move_file};
use minigpt_kernels::ElementType;
use minigpt_model::Activation;
use minigpt_tokenizer::Tokenizer;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The tool that a model is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A folder for Hugging Face transformers and for MiniGPT.
    HuggingFace {
        /// The element type of the weights. Default: f32, but quantized weights stay as they are.
        element_type: Option<ElementType>,
        /// The most bytes of weights per file. Default: one file.
        shard: Option<u64>,
    },
    /// A `ckpt.pt` for nanoGPT, with a `meta.pkl` beside it if the vocabulary consists of characters.
    NanoGpt,
    /// A file of this type for llama.cpp.
    Gguf(FileType),
}

/// What to write, where and how.
#[derive(Debug, Clone, Copy)]
pub struct Conversion<'a> {
    /// For which tool.
    pub target: Target,
    /// The folder or the file to write.
    pub out: &'a Path,
    /// Whether existing files may be replaced.
    pub replace: bool,
    /// Whether to check that the written model computes the same.
    pub check: bool,
    /// How the model was trained, for a nanoGPT checkpoint.
    pub training: Option<&'a nanogpt::NanoGptTraining>,
}

/// What a conversion wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The element types of what was written, most bytes first.
    pub types: Vec<TypeCount>,
    /// The largest difference of a logit between the original and the written model, if it was checked.
    pub largest_difference: Option<f32>,
    /// Notes for the person who converts.
    pub notes: Vec<ConversionNote>,
}

/// Writes a model with its tokenizer for another tool: all files appear at `conversion.out`, or none.
///
/// # Errors
/// The target cannot express the model; a file is in the way; or the written model does not compute the same.
pub fn convert(
    files: &OnDisk,
    model: &MappedModel,
    tokenizer: Option<&Tokenizer>,
    conversion: Conversion,
    progress: Progress,
) -> Result<Converted> {
    let job = Job { files, model, tokenizer, conversion };
    match conversion.target {
        Target::HuggingFace { element_type, shard } => job.to_hugging_face(element_type, shard, progress),
        Target::NanoGpt => job.to_nanogpt(progress),
        Target::Gguf(file_type) => job.to_gguf(file_type, progress),
    }
}

struct Job<'a> {
    files: &'a OnDisk,
    model: &'a MappedModel<'a>,
    tokenizer: Option<&'a Tokenizer>,
    conversion: Conversion<'a>,
}

impl Job<'_> {
    fn to_hugging_face(
        &self,
        element_type: Option<ElementType>,
        shard: Option<u64>,
        progress: Progress,
    ) -> Result<Converted> {
        let Conversion { out, replace, .. } = self.conversion;
        let options = SaveOptions { element_type: element_type.unwrap_or(ElementType::F32), shard };
        options.check()?;
        let folder = OutputFolder::create(out, replace, hugging_face::FILES)?;
        let template = self.template()?;
        let extra = self.extra(template.as_ref());
        match element_type {
            None if self.model.is_quantized() => self.copy_gguf(&extra, folder.path())?,
            _ => hugging_face::save_as(self.model.view(), &extra, folder.path(), options, progress)?,
        }
        if let Some(tokenizer) = self.tokenizer {
            tokenizer.save(folder.path())?;
        }
        if let Some(template) = template {
            template.save(folder.path())?;
        }
        let exact = options.element_type == ElementType::F32;
        let largest_difference = self.check(folder.path(), exact)?;
        let types = written_types(folder.path())?;
        folder.finish()?;
        Ok(Converted { types, largest_difference, notes: Vec::new() })
    }

    /// The chat template of the model's files, or that of question/answer training.
    fn template(&self) -> Result<Option<ChatTemplate>> {
        Ok(ChatTemplate::of(self.files)?.or_else(|| ChatTemplate::of_questions(self.tokenizer?)))
    }

    /// The further keys of the model's `config.json`. Special tokens that it does not name are those of the template.
    fn extra(&self, template: Option<&ChatTemplate>) -> ExtraKeys {
        let mut extra = self.model.extra().clone();
        if let (Some(template), Some(tokenizer)) = (template, self.tokenizer) {
            for (key, id) in template.config_keys(tokenizer) {
                if extra.get(&key).is_none_or(Value::is_null) {
                    extra.insert(key, id);
                }
            }
        }
        extra
    }

    /// Writes a folder with a copy of the quantized file.
    fn copy_gguf(&self, extra: &ExtraKeys, folder: &Path) -> Result<()> {
        let path = &self.files.path;
        let from =
            if self.files.format() == FileFormat::Gguf { path.clone() } else { path.join("model.gguf") };
        fs::copy(&from, folder.join("model.gguf")).map_err(|e| Error::io(&from, e))?;
        hugging_face::save_config(self.model.config(), extra, folder, ElementType::F32)
    }

    fn to_nanogpt(&self, progress: Progress) -> Result<Converted> {
        let out = self.conversion.out;
        if let Some(problem) = nanogpt::refusal(self.model.config()) {
            return Err(Error::bad(&self.files.path, problem));
        }
        let characters = match self.tokenizer {
            Some(Tokenizer::Char(characters)) => Some(characters),
            _ => None,
        };
        let mut staged = Staged::new(self.conversion)?;
        let mut notes = Vec::new();
        if let Some(characters) = characters {
            let meta = out.with_file_name("meta.pkl");
            let path = staged.file(meta.clone())?;
            notes.push(ConversionNote::PutMeta { meta });
            minigpt_files::write_file(&path, &nanogpt::meta_pkl(characters.tokens()))?;
        }
        // The last one to be put in place: where a checkpoint is, its vocabulary is too.
        let checkpoint = staged.file(out.to_owned())?;
        let untrained = nanogpt::NanoGptTraining::default();
        let training = self.conversion.training.unwrap_or(&untrained);
        nanogpt::save(self.model.view(), characters.map(|_| DATASET), training, &checkpoint, progress)?;
        if training.optimizer.is_none() {
            notes.push(ConversionNote::NoOptimizer);
        }
        let exact = self.model.config().activation_function == Activation::Gelu;
        if self.model.config().activation_function == Activation::GeluNew {
            notes.push(ConversionNote::NanoGptGelu);
        }
        let largest_difference = self.check(&checkpoint, exact)?;
        let types = written_types(&checkpoint)?;
        staged.put_in_place()?;
        Ok(Converted { types, largest_difference, notes })
    }

    fn to_gguf(&self, file_type: FileType, progress: Progress) -> Result<Converted> {
        let config = self.model.config();
        if let Some(problem) = gguf::refusal(config) {
            return Err(Error::bad(&self.files.path, problem));
        }
        let missing = || Error::bad(&self.files.path, ModelFileProblem::NoTokenizer);
        let tokenizer = self.tokenizer.ok_or_else(missing)?;
        let template = self.template()?;
        let turn_end = template.as_ref().and_then(|template| template.token("eos_token"));
        let turn_end = turn_end.and_then(|token| tokenizer.special_id(token));
        let mut metadata = gguf::tokenizer_metadata(tokenizer, config.vocab_size, turn_end)?;
        if let Some(template) = template {
            metadata.push(("tokenizer.chat_template".to_owned(), gguf::Meta::Str(template.source)));
        }
        let mut staged = Staged::new(self.conversion)?;
        let path = staged.file(self.conversion.out.to_owned())?;
        gguf::save(self.model.view(), metadata, file_type, &path, progress)?;
        let approximation = gguf::approximation(config);
        let exact = file_type == FileType::F32 && approximation.is_none();
        let largest_difference = self.check(&path, exact)?;
        let types = written_types(&path)?;
        staged.put_in_place()?;
        let mut notes: Vec<ConversionNote> = approximation.into_iter().collect();
        notes.extend(gguf::fallback(config, file_type)?);
        Ok(Converted { types, largest_difference, notes })
    }

    fn check(&self, written: &Path, exact: bool) -> Result<Option<f32>> {
        if !self.conversion.check {
            return Ok(None);
        }
        let written = OnDisk::open(written)?;
        let checked = check_written(self.model.view(), written.model()?.view(), exact);
        checked.map(Some)
    }
}

/// The element types of a written model.
fn written_types(path: &Path) -> Result<Vec<TypeCount>> {
    Ok(OnDisk::open(path)?.model()?.type_counts())
}

/// Files that are written in a temporary folder and moved to their destinations when all are complete. If dropped before,
/// nothing has changed.
struct Staged {
    folder: NewFolder,
    replace: bool,
    /// The temporary path and the destination of each file.
    files: Vec<(PathBuf, PathBuf)>,
}

impl Staged {
    fn new(conversion: Conversion) -> Result<Self> {
        in_the_way(conversion.out, conversion.replace)?;
        Ok(Self {
            folder: NewFolder::create(conversion.out)?,
            replace: conversion.replace,
            files: Vec::new(),
        })
    }

    /// The temporary path for the file at `target`.
    fn file(&mut self, target: PathBuf) -> Result<PathBuf> {
        in_the_way(&target, self.replace)?;
        let staged = self.folder.path().join(target.file_name().unwrap_or_default());
        self.files.push((staged.clone(), target));
        Ok(staged)
    }

    fn put_in_place(self) -> Result<()> {
        for (_, target) in &self.files {
            in_the_way(target, self.replace)?;
        }
        let mut new = Vec::new();
        for (staged, target) in &self.files {
            let is_new = !is_there(target)?;
            if let Err(error) = move_file(staged, target) {
                // All or nothing, as far as nothing was replaced; the first error is the one that matters.
                for path in new {
                    let _ = fs::remove_file(path);
                }
                return Err(error.into());
            }
            new.extend(is_new.then_some(target));
        }
        Ok(())
    }
}

fn in_the_way(path: &Path, replace: bool) -> Result<()> {
    if path.is_dir() {
        return Err(Error::bad(path, ModelFileProblem::IsFolder));
    }
    if !replace && is_there(path)? {
        Err(minigpt_files::Error::Exists { path: path.to_owned() }.into())
    } else {
        Ok(())
    }
}
