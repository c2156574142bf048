//! Reads GGUF files as untrusted data: every count is checked against the rest of the file.

use super::{ABSENT_BIASES, ALIGNMENT, GgufProblem, GgufSyntaxProblem, TYPES, is_gguf, our_name};
use crate::layout::LinearWeights;
use crate::mapped_model::ExtraKeys;
use crate::tensor_view::TensorView;
use minigpt_model::config::{Activation, Config};
use serde_json::json;
use std::collections::BTreeMap;

type Result<T, E = GgufProblem> = std::result::Result<T, E>;

/// What a file holds.
pub struct Contents<'a> {
    metadata: BTreeMap<String, Value>,
    /// By llama.cpp's names and in its layouts.
    tensors: Vec<(String, TensorView<'a>)>,
}

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Str(String),
    /// Texts.
    Strs(Vec<String>),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// A list of something else, which no model of ours has a use for.
    Other,
}

/// The most dimensions that a tensor has.
const DIMENSIONS: u32 = 4;

impl<'a> Contents<'a> {
    /// Reads the structure of a file, and none of its tensors.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        if !is_gguf(bytes) {
            return Err(GgufProblem::NotGguf);
        }
        let mut input = Input { bytes, at: 4 };
        let version = input.u32()?;
        if !(2..=3).contains(&version) {
            return Err(GgufProblem::Version(version));
        }
        let (tensors, pairs) = (input.u64()?, input.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..input.believe(pairs, 8 + 4 + 1)? {
            let name = input.text()?;
            match input.value() {
                Ok(value) => metadata.insert(name, value),
                Err(problem) => return Err(GgufProblem::Value { name, problem }),
            };
        }
        let infos: Vec<Info> = (0..input.believe(tensors, 8 + 4 + 4 + 8)?)
            .map(|_| Info::read(&mut input))
            .collect::<Result<_>>()?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(Value::Int(n)) if *n > 0 && n % 8 == 0 && *n <= 1 << 20 => *n as u64,
            Some(_) => return Err(GgufProblem::Alignment),
        };
        let start = (input.at as u64).next_multiple_of(alignment);
        let data = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or(&[]);
        let tensors = infos.into_iter().map(|info| info.view(data, alignment)).collect::<Result<_>>()?;
        Ok(Self { metadata, tensors })
    }

    /// A value of the metadata.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.metadata.get(name)
    }

    /// A text of the metadata.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// A token's id of the metadata.
    pub fn id(&self, name: &str) -> Option<u32> {
        match self.value(name) {
            Some(Value::Int(id)) => u32::try_from(*id).ok(),
            _ => None,
        }
    }

    /// The token that ends what the model says: the end of a turn where there is one, otherwise that of a text.
    pub fn end(&self) -> Option<u32> {
        self.id("tokenizer.ggml.eot_token_id").or_else(|| self.id("tokenizer.ggml.eos_token_id"))
    }

    /// The model's configuration, and further keys for its `config.json`.
    pub fn config(&self) -> Result<(Config, ExtraKeys)> {
        match self.text("general.architecture") {
            Some("gpt2") => {}
            Some(other) => return Err(GgufProblem::Architecture(other.to_owned())),
            None => return Err(GgufProblem::Missing("general.architecture".to_owned())),
        }
        let size = |name: &str| {
            let name = format!("gpt2.{name}");
            match self.value(&name) {
                Some(&Value::Int(value)) => {
                    usize::try_from(value).map_err(|_| GgufProblem::NotASize { name, value })
                }
                _ => Err(GgufProblem::Missing(name)),
            }
        };
        let tensor =
            |name: &str| self.tensors.iter().find(|(theirs, _)| theirs == name).map(|(_, tensor)| tensor);
        let table = tensor("token_embd.weight")
            .ok_or_else(|| GgufProblem::Missing("token_embd.weight".to_owned()))?;
        let epsilon = match self.value("gpt2.attention.layer_norm_epsilon") {
            Some(Value::Float(epsilon)) => *epsilon,
            _ => Config::default().layer_norm_epsilon,
        };
        let n_embd = size("embedding_length")?;
        let inner = size("feed_forward_length")?;
        let config = Config {
            vocab_size: table.shape.first().copied().unwrap_or(0),
            block_size: size("context_length")?,
            n_layer: size("block_count")?,
            n_head: size("attention.head_count")?,
            n_embd,
            n_inner: (Some(inner) != n_embd.checked_mul(4)).then_some(inner),
            activation_function: Activation::GeluNew,
            // Some writers put the table there twice.
            tie_word_embeddings: tensor("output.weight").is_none_or(|head| head == table),
            // The file has the nearest f32, and people write 1e-5.
            layer_norm_epsilon: (epsilon as f32).to_string().parse().unwrap_or(epsilon),
            ..Config::default()
        };
        let config = self.without_absent_biases(config);
        config.validate()?;
        let mut extra = ExtraKeys::new();
        let ids = [("bos_token_id", self.id("tokenizer.ggml.bos_token_id")), ("eos_token_id", self.end())];
        for (key, id) in ids {
            extra.extend(id.map(|id| (key.to_owned(), json!(id))));
        }
        Ok((config, extra))
    }

    /// GPT-2's files hold every bias. Those that are zeros throughout are switched on again where the file is ours and does
    /// not name them, and where they are not zeros (`with_biases_in_use`).
    fn without_absent_biases(&self, config: Config) -> Config {
        let Some(Value::Strs(absent)) = self.value(ABSENT_BIASES) else { return config.with_bias(false) };
        let has = |switch: &str| !absent.iter().any(|name| name == switch);
        Config {
            qkv_bias: has("qkv_bias"),
            attn_out_bias: has("attn_out_bias"),
            mlp_bias: has("mlp_bias"),
            norm_bias: has("norm_bias"),
            ..config
        }
    }

    /// The tensors of a model by our names and in GPT-2's layout; those that we have no name for keep theirs.
    pub fn tensors(self, config: &Config) -> Vec<(String, TensorView<'a>)> {
        let linear = LinearWeights::of(config);
        let ours = |(theirs, tensor): (String, TensorView<'a>)| match our_name(&theirs) {
            Some(ours) => {
                let tensor = linear.in_gpt2_layout(&ours, tensor);
                (ours, tensor)
            }
            None => (theirs, tensor),
        };
        self.tensors.into_iter().map(ours).collect()
    }
}

/// A tensor's description.
struct Info {
    name: String,
    /// Rows first, as we write shapes; the file has them the other way round.
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

impl Info {
    fn read(input: &mut Input) -> Result<Self> {
        let name = input.text()?;
        let dimensions = input.u32()?;
        if dimensions > DIMENSIONS {
            return Err(GgufProblem::Dimensions { name, dimensions });
        }
        let size =
            |_| usize::try_from(input.u64()?).map_err(|_| GgufProblem::TooLarge { name: name.clone() });
        let mut shape: Vec<usize> = (0..dimensions).map(size).collect::<Result<_>>()?;
        shape.reverse();
        Ok(Self { name, shape, kind: input.u32()?, offset: input.u64()? })
    }

    fn view<'a>(self, data: &'a [u8], alignment: u64) -> Result<(String, TensorView<'a>)> {
        let Self { name, shape, kind, offset } = self;
        let Some(&(_, element_type)) = TYPES.iter().find(|(number, _)| *number == kind) else {
            return Err(GgufProblem::ElementType { name, number: kind });
        };
        if !offset.is_multiple_of(alignment) {
            return Err(GgufProblem::NotAligned { name, alignment });
        }
        let beyond = || GgufProblem::BeyondFile { name: name.clone() };
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size)).ok_or_else(beyond)?;
        let bytes = element_type.bytes(count).ok_or_else(beyond)?;
        let start = usize::try_from(offset).map_err(|_| beyond())?;
        let data = start.checked_add(bytes).and_then(|end| data.get(start..end)).ok_or_else(beyond)?;
        let view = TensorView::new(element_type, shape, data).ok_or_else(beyond)?;
        Ok((name, view))
    }
}

/// The bytes that are still to be read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

type Syntax<T> = Result<T, GgufSyntaxProblem>;

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Syntax<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(GgufSyntaxProblem::EndsEarly)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Syntax<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| GgufSyntaxProblem::EndsEarly)
    }

    fn u32(&mut self) -> Syntax<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Syntax<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of things that take `least` bytes each, if there can be so many.
    fn believe(&self, count: u64, least: usize) -> Syntax<usize> {
        let left = self.bytes.len() - self.at;
        let count = usize::try_from(count).ok().filter(|&count| count <= left / least);
        count.ok_or(GgufSyntaxProblem::CountTooLarge)
    }

    fn text(&mut self) -> Syntax<String> {
        let length = self.u64()?;
        let length = self.believe(length, 1)?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| GgufSyntaxProblem::TextNotUtf8)
    }

    fn value(&mut self) -> Syntax<Value> {
        match self.u32()? {
            9 => self.list(),
            kind => self.one(kind),
        }
    }

    fn one(&mut self, kind: u32) -> Syntax<Value> {
        Ok(match kind {
            0 => Value::Int(u8::from_le_bytes(self.array()?).into()),
            1 => Value::Int(i8::from_le_bytes(self.array()?).into()),
            2 => Value::Int(u16::from_le_bytes(self.array()?).into()),
            3 => Value::Int(i16::from_le_bytes(self.array()?).into()),
            4 => Value::Int(u32::from_le_bytes(self.array()?).into()),
            5 => Value::Int(i32::from_le_bytes(self.array()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.array()?).into()),
            7 => Value::Bool(self.array::<1>()? != [0]),
            8 => Value::Str(self.text()?),
            10 => Value::Int(i64::try_from(self.u64()?).map_err(|_| GgufSyntaxProblem::NumberTooLarge)?),
            11 => Value::Int(i64::from_le_bytes(self.array()?)),
            12 => Value::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(GgufSyntaxProblem::ValueType(other)),
        })
    }

    fn list(&mut self) -> Syntax<Value> {
        let kind = self.u32()?;
        let width = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            other => return Err(GgufSyntaxProblem::ListType(other)),
        };
        let count = self.u64()?;
        let count = self.believe(count, width)?;
        match kind {
            8 => Ok(Value::Strs((0..count).map(|_| self.text()).collect::<Syntax<_>>()?)),
            4 | 5 => {
                let int = |_| match self.one(kind)? {
                    Value::Int(int) => Ok(int),
                    _ => Err(GgufSyntaxProblem::MixedList),
                };
                Ok(Value::Ints((0..count).map(int).collect::<Syntax<_>>()?))
            }
            _ => {
                self.take(count * width)?;
                Ok(Value::Other)
            }
        }
    }
}
