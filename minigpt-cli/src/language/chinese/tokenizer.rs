//! Messages of minigpt-tokenizer.

use super::Chinese;
use minigpt_tokenizer::{
    Error, FileProblem, Incomplete, LibraryProblem, SpecialTokenProblem, UnsupportedReason,
};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::UnknownCharacter { character, position } => format!(
                "文本的第 {} 个字符是 {character:?}（U+{:04X}），词表中没有它，也没有可以代替它的 <unk>",
                position + 1,
                u32::from(*character)
            ),
            Self::UnknownByte { byte, position } => {
                format!("文本的第 {position} 个字节是 0x{byte:02X}，词表中没有对应的词元")
            }
            Self::UnknownId { id, position, vocab_size } => {
                format!("第 {position} 个位置的 id {id} 超出了 {vocab_size} 个词元的词表")
            }
            Self::WordTooLong { bytes } => format!("一个 {bytes} 字节的词太长，无法编码"),
            Self::Encode(problem) => format!("分词器无法编码这段文本：{}", problem.chinese()),
            Self::CreateFolder { path, .. } => format!("无法创建文件夹 {}", path.display()),
            Self::Write { path, .. } => format!("无法写入 {}", path.display()),
            Self::File(error) => error.chinese(),
            Self::Malformed { path, problem } => format!("{}：{}", path.display(), problem.chinese()),
            Self::Unsupported { path, reason } => {
                format!("{}：{}；不支持这样的分词器", path.display(), reason.chinese())
            }
            Self::SpecialTokens(problem) => problem.chinese(),
            Self::NotAWord { word } => format!("词 {word} 既不是单个字符，也不是 <sep> 这样的特殊词元"),
            Self::DuplicateCharacter { token } => format!("字符 {token} 出现了两次"),
            Self::NotACharacter { token, id } => format!("词元 {token}（id {id}）不是单个字符"),
            Self::VocabularyTooSmall { vocab_size, specials, least } => format!(
                "{vocab_size} 个词元的词表太小：256 个字节和 {specials} 个特殊词元至少需要 {least} 个"
            ),
            Self::TooManyWords { bytes } => {
                format!("不同的词共有 {bytes} 字节，太多了，无法从中学习词表")
            }
        }
    }
}

impl Chinese for FileProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Json(message) => format!("不是分词器的 JSON：{message}"),
            Self::Library(problem) => problem.chinese(),
            Self::Contents(error) => error.chinese(),
            Self::EmptyFolder => "文件夹中既没有 tokenizer.json，也没有 vocab.json 和 merges.txt".to_owned(),
            Self::Unrecognized => {
                "既不是 tokenizer.json（没有 \"model\"），也不是词表文件（没有 \"word2id\"）".to_owned()
            }
            Self::NotUtf8(byte) => format!("第 {byte} 个字节不是 UTF-8"),
            Self::MergeLine { line, text } => format!("第 {line} 行不是合并规则：{text}"),
            Self::Merge(text) => format!("不是合并规则：{text}"),
            Self::MergeNeeds { number, left, right, token } => {
                format!("合并规则 {number}（{left} 与 {right}）需要 {token}，但它不是词元")
            }
            Self::DuplicateMerge { number, left, right } => {
                format!("合并规则 {number}（{left} 与 {right}）出现了两次")
            }
            Self::DuplicateToken(token) => format!("词元 {token} 出现了两次"),
            Self::NotByteAlphabet { token, id } => {
                format!("词元 {token}（id {id}）没有用 GPT-2 的字节字母表书写")
            }
            Self::DuplicateId { first, second, id } => format!("{first} 和 {second} 的 id 都是 {id}"),
            Self::IdGap { token, id, count, gap } => {
                format!("在 {count} 个词元的词表中，{token} 的 id 是 {id}，而 id {gap} 空缺")
            }
            Self::MissingKey(key) => format!("词表文件需要 {key:?}，而这个文件没有"),
            Self::NotAnId(key) => format!("id2word：{key} 不是 id"),
            Self::WordsDisagree { id, in_word2id, in_id2word } => {
                format!("id {id} 在 word2id 中是 {in_word2id}，在 id2word 中却是 {in_id2word}")
            }
            Self::NotInWord2Id { word, id } => format!("id2word 中有 {word}（id {id}），word2id 中没有"),
            Self::NotInId2Word { word, id } => format!("word2id 中有 {word}（id {id}），id2word 中没有"),
            Self::NoVocabulary => "模型没有带 id 的词表".to_owned(),
            Self::EmptyVocabulary => "词表是空的".to_owned(),
            Self::SparseIds { largest, tokens } => format!("{tokens} 个词元的词表中出现 id {largest}"),
            Self::AddedTokenId { token, id, known } => {
                format!("附加词元 {token} 的 id 是 {id}，而词表中是 {known}")
            }
            Self::Decoder => "解码器不能逐个词元运行".to_owned(),
            Self::PostProcessor => "后处理器把文本去掉了".to_owned(),
        }
    }
}

impl Chinese for LibraryProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Reported(message) => message.to_string(),
            Self::Panicked => "分词器的表互相矛盾".to_owned(),
        }
    }
}

impl Chinese for UnsupportedReason {
    fn chinese(&self) -> String {
        match self {
            Self::Dropout => "BPE 设置了 \"dropout\"，同一段文本每次得到的 id 都不同".to_owned(),
            Self::Decoder { kinds } => format!("解码器（{}）不能逐个词元给出文本", kinds.join("、")),
            Self::NormalizerGrowth => "规范化可能把文本变长一百万倍".to_owned(),
            Self::NormalizerTable => "规范化的表与其声明的大小不符".to_owned(),
            Self::TemplateToken(token) => format!("后处理模板用到 {token}，但 special_tokens 中没有它"),
        }
    }
}

impl Chinese for SpecialTokenProblem {
    fn chinese(&self) -> String {
        match self {
            Self::TooShort(name) => format!("特殊词元 {name} 太短：至少要两个字符"),
            Self::TooLong { name, limit } => format!("特殊词元 {name} 超过 {limit} 字节"),
            Self::Duplicate(name) => format!("特殊词元 {name} 出现了两次"),
            Self::TooMany(most) => format!("特殊词元超过 {most} 个"),
            Self::Search(message) => format!("无法查找特殊词元：{message}"),
        }
    }
}

impl Chinese for Incomplete {
    fn chinese(&self) -> String {
        let bytes: Vec<String> = self.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("文本在一个字符中间结束，剩下的字节是 {}", bytes.join(" "))
    }
}
