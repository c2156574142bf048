//! A model on disk in any format, before it is loaded: its files, and the tokenizer that belongs to it.

use crate::error::{Error, ModelFileProblem, Result};
use crate::gguf::{self, GgufProblem};
use crate::hugging_face::config_json;
use crate::hugging_face::weight_files::WeightFiles;
use crate::mapped_model::{ExtraKeys, Loaded, MappedModel};
use crate::nanogpt;
use crate::state_dict::{self, Architecture, StateDict, StateDictNote};
use minigpt_files::{Mapped, is_there};
use minigpt_model::{Config, Device};
use minigpt_tokenizer::Tokenizer;
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// Loads a model folder (or a file of nanoGPT's or llama.cpp's), with plain weights as f32 on `device`. Each tensor is
/// copied once, out of a memory map.
pub fn load(path: &Path, device: &Device) -> Result<Loaded> {
    OnDisk::open(path)?.model()?.load(device)
}

/// Reads only the configuration of a model folder, or of a file.
pub fn load_config(path: &Path) -> Result<Config> {
    if path.is_file() {
        Ok(OnDisk::open(path)?.model()?.config().clone())
    } else {
        Ok(config_json::open(&path.join("config.json"))?.0)
    }
}

/// The format of a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// A Hugging Face folder; ours are such folders too.
    HuggingFace,
    /// nanoGPT's `ckpt.pt`.
    NanoGpt,
    /// A GGUF file, as llama.cpp reads.
    Gguf,
    /// A state dictionary that `torch.save` wrote.
    StateDict(Architecture),
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::HuggingFace => f.write_str("Hugging Face folder"),
            Self::NanoGpt => f.write_str("nanoGPT checkpoint"),
            Self::Gguf => f.write_str("GGUF file"),
            Self::StateDict(architecture) => write!(f, "state dictionary of the {architecture}"),
        }
    }
}

impl Serialize for FileFormat {
    /// Writes the English name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a model's tokenizer was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizerOrigin {
    /// A file, a folder or a built-in tokenizer of this name.
    Named(String),
    /// The GGUF file of the model.
    Gguf,
    /// GPT-2's, because the model has as many tokens.
    Gpt2Size,
}

impl fmt::Display for TokenizerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Named(name) => name,
            Self::Gguf => "from the GGUF file",
            Self::Gpt2Size => "gpt2, by its number of tokens",
        })
    }
}

impl Serialize for TokenizerOrigin {
    /// Writes the English text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The number of GPT-2's tokens, and the same rounded up by nanoGPT.
const GPT2_TOKENS: [usize; 2] = [50_257, 50_304];

/// A model folder, a nanoGPT checkpoint or a GGUF file, mapped and not yet read.
pub struct OnDisk {
    /// The folder or file.
    pub path: PathBuf,
    files: Files,
}

enum Files {
    HuggingFace(Box<(Config, ExtraKeys)>, WeightFiles),
    NanoGpt(Mapped),
    Gguf(Mapped),
    StateDict(Architecture, Mapped),
}

impl OnDisk {
    /// Finds and maps the files of a model.
    pub fn open(path: &Path) -> Result<Self> {
        if !is_there(path)? {
            return Err(Error::bad(path, ModelFileProblem::Missing));
        }
        let files = if path.is_dir() {
            let config = config_json::open(&path.join("config.json"))?;
            Files::HuggingFace(Box::new(config), WeightFiles::open(path)?)
        } else {
            let file = Mapped::open(path)?;
            match file.bytes() {
                bytes if gguf::is_gguf(bytes) => Files::Gguf(file),
                bytes @ [b'P', b'K', ..] => match state_dict::architecture(bytes) {
                    Some(architecture) => Files::StateDict(architecture, file),
                    None => Files::NanoGpt(file),
                },
                _ => return Err(Error::bad(path, ModelFileProblem::NotAModel)),
            }
        };
        Ok(Self { path: path.to_owned(), files })
    }

    /// The format of the files.
    pub fn format(&self) -> FileFormat {
        match self.files {
            Files::HuggingFace(..) => FileFormat::HuggingFace,
            Files::NanoGpt(_) => FileFormat::NanoGpt,
            Files::Gguf(_) => FileFormat::Gguf,
            Files::StateDict(architecture, _) => FileFormat::StateDict(architecture),
        }
    }

    /// The bytes of a GGUF file, if it is one.
    pub fn gguf(&self) -> Option<&[u8]> {
        match &self.files {
            Files::Gguf(file) => Some(file.bytes()),
            _ => None,
        }
    }

    /// The model that the files describe, checked as a whole, and not yet in memory.
    pub fn model(&self) -> Result<MappedModel<'_>> {
        let path = &self.path;
        match &self.files {
            Files::HuggingFace(config, files) => {
                let (config, extra) = *config.clone();
                let tensors = files.tensors(&config)?;
                MappedModel::new(&files.path, config, extra, tensors, files.maps())
            }
            Files::NanoGpt(file) => {
                let (config, tensors) =
                    nanogpt::read(file.bytes()).map_err(|problem| Error::bad(path, problem))?;
                MappedModel::new(path, config, ExtraKeys::new(), tensors, vec![file])
            }
            Files::Gguf(file) => {
                let failed = |problem: GgufProblem| Error::bad(path, problem);
                let contents = gguf::Contents::read(file.bytes()).map_err(failed)?;
                let (config, extra) = contents.config().map_err(failed)?;
                let tensors = contents.tensors(&config);
                MappedModel::new(path, config, extra, tensors, vec![file])
            }
            Files::StateDict(..) => Err(Error::bad(path, ModelFileProblem::StateDictionary)),
        }
    }

    /// For a state dictionary, the configuration that its tensors suggest, with notes. The settings in
    /// [`Architecture::ASSUMED`] are assumptions. `None` for other formats, whose files have the whole configuration.
    pub fn assumed(&self) -> Result<Option<(Config, Vec<StateDictNote>)>> {
        let Files::StateDict(_, file) = &self.files else { return Ok(None) };
        let StateDict { config, notes, .. } = self.state_dict(file)?;
        Ok(Some((config, notes)))
    }

    /// The model that a state dictionary's tensors make with this configuration, which is [`Self::assumed`] with or without
    /// changes. Other formats have a configuration of their own, which is used instead.
    pub fn model_as(&self, config: Config) -> Result<MappedModel<'_>> {
        let Files::StateDict(_, file) = &self.files else { return self.model() };
        config.validate().map_err(|e| Error::bad(&self.path, e))?;
        let StateDict { tensors, .. } = self.state_dict(file)?;
        MappedModel::new(&self.path, config, ExtraKeys::new(), tensors, vec![file])
    }

    fn state_dict<'a>(&self, file: &'a Mapped) -> Result<StateDict<'a>> {
        StateDict::read(file.bytes()).map_err(|problem| Error::bad(&self.path, problem))
    }

    /// The named tokenizer (`gpt2`, a file, a folder, nanoGPT's `meta.pkl`), or else the one that lies with the model; and where
    /// it was found.
    ///
    /// # Errors
    /// The tokenizer has more tokens than the model.
    pub fn tokenizer(
        &self,
        named: Option<&str>,
        config: &Config,
    ) -> Result<Option<(Tokenizer, TokenizerOrigin)>> {
        let found = match named {
            Some(name) => Some((by_name(name)?, TokenizerOrigin::Named(name.to_owned()))),
            None => self.beside(config)?,
        };
        if let Some((tokenizer, origin)) = &found {
            let (tokens, vocab_size) = (tokenizer.vocab_size(), config.vocab_size);
            if tokens > vocab_size {
                let origin = origin.clone();
                let problem = ModelFileProblem::TokenizerTooLarge { origin, tokens, vocab_size };
                return Err(Error::bad(&self.path, problem));
            }
        }
        Ok(found)
    }

    /// The tokenizer that lies with the model, if there is one.
    pub fn own_tokenizer(&self) -> Result<Option<Tokenizer>> {
        Ok(self.tokenizer(None, self.model()?.config())?.map(|(tokenizer, _)| tokenizer))
    }

    /// The tokenizer in a folder or a GGUF file, the vocabulary beside a checkpoint, or GPT-2's if the number of tokens fits.
    fn beside(&self, config: &Config) -> Result<Option<(Tokenizer, TokenizerOrigin)>> {
        let named = |name: &str| TokenizerOrigin::Named(name.to_owned());
        if let Some(bytes) = self.gguf() {
            let tokenizer = gguf::tokenizer(bytes, &self.path)?;
            return Ok(tokenizer.map(|tokenizer| (tokenizer, TokenizerOrigin::Gguf)));
        }
        if let Files::HuggingFace(..) = self.files {
            for name in ["tokenizer.json", "vocab.json"] {
                if is_there(&self.path.join(name))? {
                    return Ok(Some((Tokenizer::open(&self.path)?, named(name))));
                }
            }
            return Ok(None);
        }
        let meta = self.path.with_file_name("meta.pkl");
        if is_there(&meta)? {
            return Ok(Some((nanogpt::read_meta(&meta)?, named("meta.pkl"))));
        }
        if let Some(meta) = self.meta_of_dataset()? {
            return Ok(Some((nanogpt::read_meta(&meta)?, named(&meta.display().to_string()))));
        }
        let vocabulary = self.path.with_file_name("vocab.json");
        if self.format() == FileFormat::StateDict(Architecture::QuestionAnswering) && is_there(&vocabulary)? {
            return Ok(Some((Tokenizer::open(&vocabulary)?, named("vocab.json"))));
        }
        let is_gpt2 = GPT2_TOKENS.contains(&config.vocab_size);
        Ok(is_gpt2.then(|| (Tokenizer::gpt2(), TokenizerOrigin::Gpt2Size)))
    }
}

impl OnDisk {
    /// The `data/NAME/meta.pkl` of the data set that a nanoGPT checkpoint names: below the current folder, where nanoGPT
    /// looks for it, or beside one of the folders that the checkpoint is in (`nanoGPT/out/ckpt.pt`).
    fn meta_of_dataset(&self) -> Result<Option<PathBuf>> {
        /// Folders above the checkpoint's.
        const ABOVE: usize = 3;
        let Files::NanoGpt(file) = &self.files else { return Ok(None) };
        let Some(dataset) = nanogpt::dataset(file.bytes()) else { return Ok(None) };
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let above = path.ancestors().skip(1).take(1 + ABOVE);
        for folder in std::iter::once(Path::new("")).chain(above) {
            let meta = folder.join("data").join(&dataset).join("meta.pkl");
            if is_there(&meta)? {
                return Ok(Some(meta));
            }
        }
        Ok(None)
    }
}

fn by_name(name: &str) -> Result<Tokenizer> {
    let path = Path::new(name);
    if path.extension().is_some_and(|end| end == "pkl") {
        return nanogpt::read_meta(path);
    }
    match name {
        "gpt2" => Ok(Tokenizer::gpt2()),
        _ => Ok(Tokenizer::open(path)?),
    }
}
