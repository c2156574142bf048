//! Messages of minigpt-formats.

use super::{Chinese, nested};
use minigpt_formats::check::{CheckProblem, Culprit};
use minigpt_formats::gguf::{FileType, GgufProblem, GgufSyntaxProblem, UnknownFileType};
use minigpt_formats::hugging_face::HuggingFaceProblem;
use minigpt_formats::nanogpt::{DATASET, MetaProblem, MomentsProblem, NanoGptProblem};
use minigpt_formats::torch::{PickleError, PickleProblem, TorchProblem, TorchTensorProblem};
use minigpt_formats::{
    Architecture, ConversionNote, Error, Feature, FileFormat, ModelFileProblem, NotExpressible, OtherDecoder,
    StateDictNote, StateDictProblem, TensorMismatch, TensorNames, TensorsProblem, TokenizerOrigin,
    Unsupported,
};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Bad { path, problem } => format!("{}：{}", path.display(), problem.chinese()),
            Self::Io { path, problem } => format!("{}：{}", path.display(), nested(problem)),
            Self::NotExpressible(error) => error.chinese(),
            Self::Check(problem) => problem.chinese(),
            Self::File(error) => error.chinese(),
            Self::Model(error) => error.chinese(),
            Self::Tokenizer(error) => error.chinese(),
            // candle's own text.
            Self::Tensor(error) => error.to_string(),
        }
    }
}

impl Chinese for ModelFileProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Missing => "没有这个文件或文件夹".to_owned(),
            Self::IsFolder => "是文件夹；请指定文件名".to_owned(),
            Self::NotAModel => {
                "不是模型：它不是文件夹，不是 GGUF 文件，也不是 torch.save（1.6 版以后）写出的 zip 文件"
                    .to_owned()
            }
            Self::StateDictionary => "是状态字典，没有写全模型的结构（比如头数）；请先导入它".to_owned(),
            Self::NoTokenizer => "其中没有分词器（tokenizer.json）".to_owned(),
            Self::TokenizerTooLarge { origin, tokens, vocab_size } => {
                format!(
                    "{}：分词器有 {tokens} 个词元，而模型有 {vocab_size} 个；两者不配套",
                    origin.chinese()
                )
            }
            Self::NotJson(error) => format!("不是 JSON 对象：{error}"),
            Self::HuggingFace(problem) => problem.chinese(),
            Self::Torch(problem) => problem.chinese(),
            Self::NanoGpt(problem) => problem.chinese(),
            Self::Meta(problem) => problem.chinese(),
            Self::Moments(problem) => problem.chinese(),
            Self::Gguf(problem) => problem.chinese(),
            Self::StateDict(problem) => problem.chinese(),
            Self::Tensors(problem) => problem.chinese(),
            Self::Unsupported(problem) => problem.chinese(),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for HuggingFaceProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NotJson(error) => format!("不是 JSON 对象：{error}"),
            Self::ModelType(kind) => format!("不支持模型类型 {kind:?}；只支持 \"gpt2\" 和 \"minigpt\""),
            Self::ModelTypeNotText => "model_type 不是字符串".to_owned(),
            Self::NotSupported { key, value, supported } => format!("{key} 是 {value}；只支持 {supported}"),
            Self::Value { key, value, problem } => format!("{key} 是 {value}：{problem}"),
            Self::NoWeights { names } => format!("其中没有权重：{} 都没有", names.join("、")),
            Self::NotAnIndex(error) => format!("不是权重索引：{error}"),
            Self::NotBeside { file } => format!("提到文件 {file:?}，但它不在同一文件夹"),
            Self::NotSafetensors(error) => format!("不是 safetensors 文件，或文件已损坏：{error}"),
            Self::Twice { name } => format!("文件头中 {name} 出现了两次"),
            Self::Malformed { name } => format!("{name} 的格式有误"),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for TensorsProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Twice { name } => format!("其中有两个 {name}"),
            Self::TooManyElements => "张量声称的元素比文件中的多".to_owned(),
            Self::Mismatches(mismatches) => {
                let lines = mismatches.iter().map(|mismatch| format!("\n  {}", mismatch.chinese()));
                format!("权重与 config.json 不符{}", lines.collect::<String>())
            }
        }
    }
}

impl Chinese for TensorMismatch {
    fn chinese(&self) -> String {
        match self {
            Self::Missing { name, shape } => format!("缺少：{name} {shape:?}"),
            Self::MoreMissing(count) => format!("缺少：另外 {count} 个"),
            Self::Unexpected { name, shape } => format!("多余：{name} {shape:?}"),
            Self::SwitchedOff { name, switch } => format!("多余：{name}（{switch} 已关闭）"),
            Self::MoreUnexpected(count) => format!("多余：另外 {count} 个"),
            Self::Shape { name, shape, expected } => format!("不符：{name} 是 {shape:?}，应为 {expected:?}"),
            Self::ElementType { name, element_type } => {
                format!("不符：{name} 的类型是 {element_type}，不是 f32、f16 或 bf16")
            }
            Self::MoreWrong(count) => format!("不符：另外 {count} 个"),
        }
    }
}

impl Chinese for TorchProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NotAnArchive(error) => {
                format!("不是 zip 文件：torch.save 的版本太旧（1.6 之前），或根本不是检查点（{error}）")
            }
            Self::TooManyFiles => "压缩包中列出的文件太多".to_owned(),
            Self::Malformed(error) => format!("压缩包已损坏：{error}"),
            Self::Compressed { name } => format!("{name} 被压缩了，而 torch.save 从不压缩"),
            Self::Encrypted { name } => format!("{name} 被加密了，而 torch.save 从不加密"),
            Self::BeyondArchive { name } => format!("{name} 超出了压缩包的范围"),
            Self::BigEndian => "元素是大端序；只支持小端序".to_owned(),
            Self::NoPickle => "其中没有 data.pkl：不是 torch.save 写的".to_owned(),
            Self::Pickle(error) => error.chinese(),
            Self::NoDictionary => "其中没有张量字典".to_owned(),
            Self::NameNotText => "有一个张量的名字不是文本".to_owned(),
            Self::Tensor { name, problem } => format!("{name}：{}", problem.chinese()),
        }
    }
}

impl Chinese for TorchTensorProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NamelessCall => "调用了没有名字的东西".to_owned(),
            Self::Call(name) => format!("要调用 {name}，数据用不到它；没有执行"),
            Self::Malformed => "张量的描述有误".to_owned(),
            Self::MissingData { key } => format!("缺少 data/{key}"),
            Self::BeyondStorage => "张量超出了它的存储范围".to_owned(),
            Self::ElementType(name) => format!("未知的元素类型 {name}"),
        }
    }
}

impl Chinese for PickleError {
    fn chinese(&self) -> String {
        format!("{}（第 {} 个字节）", self.problem.chinese(), self.at)
    }
}

impl Chinese for PickleProblem {
    fn chinese(&self) -> String {
        match self {
            Self::EndsEarly => "pickle 不完整".to_owned(),
            Self::LengthTooLarge => "长度超出范围".to_owned(),
            Self::NumberTooLarge => "数字超出范围".to_owned(),
            Self::TextNotUtf8 => "文本不是 UTF-8".to_owned(),
            Self::NameWithoutEnd => "名字没有结尾".to_owned(),
            Self::NameNotUtf8 => "名字不是 UTF-8".to_owned(),
            Self::NameNotText => "名字不是文本".to_owned(),
            Self::TooManyValues => "值太多".to_owned(),
            Self::TooDeep => "值嵌套太深".to_owned(),
            Self::KeyWithoutValue => "有键没有值".to_owned(),
            Self::MissingValue => "缺少值".to_owned(),
            Self::MissingMark => "缺少标记".to_owned(),
            Self::NotAList => "追加的目标不是列表".to_owned(),
            Self::NotADictionary => "设置键的目标不是字典".to_owned(),
            Self::SlotOutOfRange => "memo 位置超出范围".to_owned(),
            Self::SlotEmpty => "memo 位置是空的".to_owned(),
            Self::Instruction(code) => format!("不允许指令 0x{code:02x}：数据用不到它"),
        }
    }
}

impl Chinese for NanoGptProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Torch(problem) => problem.chinese(),
            Self::Incomplete => "不是 nanoGPT 的检查点：没有 \"model\" 和 \"model_args\"".to_owned(),
            Self::NotACheckpoint { state_dict } => {
                format!("不是 nanoGPT 的检查点：没有 \"model\" 和 \"model_args\"；{}", state_dict.chinese())
            }
            Self::Argument(name) => format!("model_args 中没有可用的 {name}"),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for MetaProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Pickle(error) => error.chinese(),
            Self::NoStoi => "没有 stoi：不是 nanoGPT 的 meta.pkl".to_owned(),
            Self::Numbering => "stoi 没有从 0 开始给字符编号".to_owned(),
            Self::Gap => "stoi 的编号不连续".to_owned(),
            Self::VocabSize { characters } => format!("vocab_size 不等于 stoi 的字符数 {characters}"),
            Self::Itos => "itos 既不是字典也不是列表".to_owned(),
            Self::Counts { stoi, itos } => format!("stoi 有 {stoi} 个字符，itos 有 {itos} 个"),
            Self::Disagree { id, word, other: Some(other) } => {
                format!("stoi 与 itos 不一致：{id} 在 stoi 中是 {word:?}，在 itos 中是 {other:?}")
            }
            Self::Disagree { id, word, other: None } => {
                format!("stoi 与 itos 不一致：{id} 在 stoi 中是 {word:?}，在 itos 中没有")
            }
            Self::Tokenizer(error) => error.chinese(),
        }
    }
}

impl Chinese for MomentsProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Malformed(error) => format!("优化器状态已损坏：{error}"),
            Self::Missing { name } => format!("优化器状态里没有 {name}"),
            Self::Shape { name } => format!("优化器状态中的 {name} 与模型的形状不符"),
        }
    }
}

impl Chinese for GgufProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NotGguf => "不是 GGUF 文件".to_owned(),
            Self::Version(version) => format!("不支持 GGUF 版本 {version}；支持版本 2 和 3"),
            Self::Syntax(problem) => problem.chinese(),
            Self::Value { name, problem } => format!("{name}：{}", problem.chinese()),
            Self::Alignment => "general.alignment 不是 8 的倍数".to_owned(),
            Self::Architecture(name) => format!("不支持架构 {name:?}；只支持 \"gpt2\""),
            Self::Missing(name) => format!("缺少 {name}"),
            Self::NotASize { name, value } => format!("{name} 是 {value}，不是有效的大小"),
            Self::Dimensions { name, dimensions } => {
                format!("{name} 有 {dimensions} 个维度；张量最多有 4 个")
            }
            Self::TooLarge { name } => format!("{name} 太大"),
            Self::ElementType { name, number } => format!("{name} 的元素类型 {number} 未知"),
            Self::NotAligned { name, alignment } => format!("{name} 的起点不是 {alignment} 的倍数"),
            Self::BeyondFile { name } => format!("{name} 超出了文件，或者形状与类型不符"),
            Self::Tokenizer { kind, pre } => format!(
                "分词器是 {kind:?}，按 {pre:?} 切分文本；只支持 GPT-2 的 BPE。请指定另一个分词器，或使用词元 id"
            ),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for GgufSyntaxProblem {
    fn chinese(&self) -> String {
        match self {
            Self::EndsEarly => "文件不完整".to_owned(),
            Self::CountTooLarge => "数量超过了文件剩余部分能容纳的范围".to_owned(),
            Self::TextNotUtf8 => "文本不是 UTF-8".to_owned(),
            Self::NumberTooLarge => "数字超出范围".to_owned(),
            Self::ValueType(number) => format!("值的类型 {number} 未知"),
            Self::ListType(number) => format!("列表的类型 {number} 未知"),
            Self::MixedList => "列表的元素类型不一致".to_owned(),
        }
    }
}

impl Chinese for UnknownFileType {
    fn chinese(&self) -> String {
        let Self(name) = self;
        format!("GGUF 不提供 {name}；可用的有 {}", FileType::ALL.map(FileType::name).join("、"))
    }
}

impl Chinese for StateDictProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Torch(problem) => problem.chinese(),
            Self::Unknown { tensors } => {
                let known = Architecture::ALL
                    .map(|known| format!("{}的（{}）", known.chinese(), known.signature()))
                    .join("，也不是");
                format!("其中没有认识的状态字典：不是{known}。其中的张量：{}", tensors.chinese())
            }
            Self::Twice { name } => format!("其中有两个 {name}"),
            Self::TooManyElements => "张量声称的元素比文件中的多".to_owned(),
            Self::ThirdsDiffer { name } => format!("{name} 的查询、键和值不一致"),
            Self::Mismatch { architecture, understood, missing, not_understood } => format!(
                "看起来像{}的状态字典：识别了 {understood} 个张量；缺少：{}；无法识别：{}",
                architecture.chinese(),
                missing.chinese(),
                not_understood.chinese()
            ),
            Self::Model(error) => error.chinese(),
        }
    }
}

impl Chinese for StateDictNote {
    fn chinese(&self) -> String {
        match self {
            Self::NoPositions { block_size } => {
                format!("没有 pos_encoding：用正弦位置编码，上下文为 {block_size}")
            }
            Self::SinusoidalTable => "pos_encoding 就是正弦余弦表：用正弦位置编码".to_owned(),
            Self::Ignored(names) => format!("已跳过，不是权重：{}", names.chinese()),
        }
    }
}

impl Chinese for TensorNames {
    fn chinese(&self) -> String {
        match (self.first.is_empty(), self.more) {
            (true, _) => "无".to_owned(),
            (false, 0) => self.first.join("、"),
            (false, more) => format!("{}，另外还有 {more} 个", self.first.join("、")),
        }
    }
}

impl Chinese for Architecture {
    fn chinese(&self) -> String {
        match self {
            Self::QuestionAnswering => "问答模型".to_owned(),
            Self::Textbook => "教科书模型".to_owned(),
        }
    }
}

impl Chinese for FileFormat {
    fn chinese(&self) -> String {
        match self {
            Self::HuggingFace => "Hugging Face 文件夹".to_owned(),
            Self::NanoGpt => "nanoGPT 检查点".to_owned(),
            Self::Gguf => "GGUF 文件".to_owned(),
            Self::StateDict(architecture) => format!("{}的状态字典", architecture.chinese()),
        }
    }
}

impl Chinese for TokenizerOrigin {
    fn chinese(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Gguf => "来自 GGUF 文件".to_owned(),
            Self::Gpt2Size => "gpt2，按词元数判断".to_owned(),
        }
    }
}

impl Chinese for NotExpressible {
    fn chinese(&self) -> String {
        match self {
            Self::ElementType(name) => format!("transformers 不支持 {name}；请用 f32、f16 或 bf16"),
            Self::NoMatrix { element_type, rows, instead } => {
                let rows = rows.iter().map(usize::to_string).collect::<Vec<_>>().join("、");
                format!(
                    "这个模型没有矩阵能写成 {element_type}：它的块有 {} 个元素，而这里每行有 {rows} 个；请用 {instead}",
                    element_type.block_size()
                )
            }
            Self::TooLarge { name } => format!("{name} 太大"),
            Self::CharacterTokenizer => {
                "模型的词表是字符级的，llama.cpp 无法用它分词；请改用 BPE 训练模型".to_owned()
            }
            Self::OtherTokenizer => {
                "GGUF 文件只能写入 GPT-2 的字节级 BPE，而模型用的是另一种分词器；可以用 llama.cpp \
                 自带的转换程序转换 Hugging Face 文件夹"
                    .to_owned()
            }
        }
    }
}

impl Chinese for Unsupported {
    fn chinese(&self) -> String {
        let features: Vec<String> = self.features.iter().map(Chinese::chinese).collect();
        format!("{}不支持：{}", self.decoder.chinese(), features.join("、"))
    }
}

impl Chinese for OtherDecoder {
    fn chinese(&self) -> String {
        match self {
            Self::NanoGpt => "nanoGPT 的模型".to_owned(),
            Self::Gguf => "GGUF 文件的 gpt2 架构".to_owned(),
        }
    }
}

impl Chinese for Feature {
    fn chinese(&self) -> String {
        match self {
            Self::PostNorm => "后置归一化（norm_position = \"post\"）".to_owned(),
            Self::OtherPositions => "不是学习得到的位置编码".to_owned(),
            Self::ScaledEmbeddings => "经过缩放的嵌入".to_owned(),
            Self::HeadBias => "带偏置的输出层".to_owned(),
            Self::Relu => "ReLU".to_owned(),
            Self::UntiedHead => "独立的输出层".to_owned(),
            Self::InnerWidth => "不等于 4 倍 n_embd 的 n_inner".to_owned(),
            Self::SomeBiases => "只有一部分偏置".to_owned(),
        }
    }
}

impl Chinese for ConversionNote {
    fn chinese(&self) -> String {
        match self {
            Self::PutMeta { meta } => {
                format!("请把 {} 放到 nanoGPT 的 data/{DATASET}/ 中", meta.display())
            }
            Self::NoOptimizer => "没有写入优化器状态：用 nanoGPT 继续训练时，AdamW 从头开始".to_owned(),
            Self::NanoGptGelu => "nanoGPT 用精确公式计算 GELU；这个模型是用 tanh 近似训练的".to_owned(),
            Self::GgufGelu => "llama.cpp 用 tanh 近似计算 GELU；这个模型是用精确公式训练的".to_owned(),
            Self::OtherTypes { others, matrices, types, file_type } => format!(
                "{matrices} 个矩阵中有 {others} 个写成 {}：它们的行填不满 {file_type} 的块",
                types.join("、")
            ),
        }
    }
}

impl Chinese for CheckProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Shapes => "两个模型的形状不同".to_owned(),
            Self::Logit { logit, culprit } => format!("有一个 logit 是 {logit}：{}", culprit.chinese()),
            Self::NotFinite(culprit) => culprit.chinese(),
            Self::Different { difference } => {
                format!("写出的模型算出了不同的结果：有一个 logit 相差 {difference}；没有保留任何东西")
            }
        }
    }
}

impl Chinese for Culprit {
    fn chinese(&self) -> String {
        match self {
            Self::Original { name } => format!("模型本身的 {name} 中有不是有限数的值"),
            Self::Overflow { name, largest } => format!(
                "{name} 写成这种元素类型时溢出（它的最大值是 {largest}）；没有保留任何东西，请选择范围更大的类型"
            ),
            Self::Activations => "所有权重都是有限的，但激活值溢出了".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_deep_inside_a_file_is_chinese_throughout() {
        let problem = TorchProblem::from(PickleError { problem: PickleProblem::TooDeep, at: 7 });
        let error = Error::Bad { path: "a.pt".into(), problem: Box::new(problem.into()) };
        assert_eq!(error.to_string(), "a.pt: values are nested too deep (at byte 7)");
        assert_eq!(error.chinese(), "a.pt：值嵌套太深（第 7 个字节）");
    }
}
