//! Messages of minigpt-data.

use super::{Chinese, after_chinese, nested, outside};
use minigpt_charts::{bytes, count};
use minigpt_data::{
    BadLine, BadRow, ColumnsError, Damage, DataName, Description, DownloadProblem, Encodings, Error,
    FileDamage, FileKind, InvalidUtf8, JsonKind, JsonProblem, Layout, Licence, OptionError, RecordForm,
    SetContents, SplitUnit, TokensProblem, UnknownNote, Unsuitable,
};
use minigpt_tokenizer::{END_OF_TEXT, SEP, UNK};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Io { action, name, source: _ } => format!("无法{} {}", action.chinese(), name.chinese()),
            Self::Folder(path) => format!("{} 是文件夹，这里需要文件", path.display()),
            Self::Changed(name) => format!("{} 在读取过程中被改动了", name.chinese()),
            Self::NoTokenizer(path) => format!(
                "没有 {} 这个分词器：可以是 char、gpt2、bpe:2000（从数据中学习 2,000 个词元），或分词器的文件或文件夹",
                path.display()
            ),
            Self::InvalidUtf8 { name, position, line, found } => {
                let hint = match found {
                    InvalidUtf8::Utf16(_) => "：看起来是 UTF-16，请先转换成 UTF-8",
                    InvalidUtf8::Byte(_) | InvalidUtf8::EndOfFile => "",
                };
                let (name, found) = (name.chinese(), found.chinese());
                format!("{name}：不是 UTF-8 文本：{found}（第 {position} 个字节，第 {line} 行）{hint}")
            }
            Self::TooMuchThroughAPipe { name, limit } => {
                format!("{} 的数据超过 {}：请先存成文件", name.chinese(), bytes(*limit))
            }
            Self::NotInEncoding { name, encoding, position } => {
                format!("{}：不是 {encoding} 文本：第 {position} 个字节有误", name.chinese())
            }
            Self::Binary { name, kind } => format!("{} 是{}，不是文本", name.chinese(), after_chinese(kind)),
            Self::NoParquet { name } => format!(
                "{} 是 Parquet 文件，而这个版本编译时没有启用 \"parquet\" 功能，不能读取",
                name.chinese()
            ),
            Self::BadParquet { name, problem } => {
                format!("{}：不是可以读取的 Parquet 文件：{}", name.chinese(), outside(problem))
            }
            Self::Empty { name } => format!("{} 中没有文本", name.chinese()),
            Self::OnlyWhiteSpace { name } => format!("{} 中只有空白字符：没有可学的内容", name.chinese()),
            Self::NoExamples { name } => format!("{} 中没有样例", name.chinese()),
            Self::NothingToLearn { name, max_length } => {
                format!("{}：在 max_length {max_length} 之内，没有一个样例有可学的内容", name.chinese())
            }
            Self::NothingLeft { name, records, val_fraction } => format!(
                "{} 只有 {} 个样例，data.val_fraction = {val_fraction} 时没有剩下可训练的；设 data.val_fraction = 0 则一个也不留出",
                name.chinese(),
                count(*records)
            ),
            Self::NoTextFiles { path, others } => format!(
                "{} 中没有文本文件：只读取以 .txt、.text、.md 或 .markdown 结尾的文件，不读取另外 {} 个文件",
                path.display(),
                count(*others)
            ),
            Self::NoValidLine { name, bad, blank, first } => {
                let first = first.as_ref().map_or_else(String::new, |first| format!("；{}", first.chinese()));
                format!("{} 中没有可用的行：{bad} 行无效，{blank} 行空白{first}", name.chinese())
            }
            Self::Option(error) => error.chinese(),
            Self::Columns(error) => error.chinese(),
            Self::Unsuitable(error) => error.chinese(),
            Self::BadTokens { path, problem } => format!("{}：{}", path.display(), problem.chinese()),
            Self::BeyondVocabulary { name, position, id, vocab_size } => format!(
                "{}：第 {position} 个词元是 {id}，但词表只有 {vocab_size} 项：这些词元是用另一个分词器生成的",
                name.chinese()
            ),
            Self::TooShort { name, tokens, needed } => format!(
                "{} 只有 {} 个词元，需要 {needed} 个：请用更多文本，或减小 block_size",
                name.chinese(),
                count(*tokens)
            ),
            Self::BadPosition { epoch, batch, batches } => format!(
                "数据位置（第 {epoch} 轮，第 {batch} 批）不在这个数据集中，它每轮只有 {batches} 批：保存时用的是不是别的数据？"
            ),
            Self::NotThere { url } => format!("{url}：服务器回复 404 Not Found：没有这个文件"),
            Self::Offline { url, problem } => format!(
                "无法连接 {url}（{}）：联网了吗？如在代理之后，请设置 HTTPS_PROXY；也可以用镜像作为 endpoint；或者用别的方式下载文件，再按路径使用",
                outside(problem)
            ),
            Self::Download { url, problem } => format!("无法下载 {url}：{}", problem.chinese()),
            Self::WrongHash { url, expected, found } => {
                format!("{url} 不是预期的文件：是 {found}，应为 {expected}；已删除，请重试")
            }
            Self::File(error) => error.chinese(),
            Self::Tokenizer(error) => error.chinese(),
            Self::Format(error) => nested(&**error),
            Self::Line { name, line, source: _ } => format!("{} 第 {line} 行", name.chinese()),
        }
    }
}

impl Chinese for OptionError {
    fn chinese(&self) -> String {
        match self {
            Self::BatchSize => "批次大小至少是 1".to_owned(),
            Self::BatchTooLarge { positions } => format!("{positions} 个位置的批次太大"),
            Self::TooFewExamples { examples, size } => {
                format!("数据集只有 {examples} 个样例，不够一个 {size} 的批次：请减小批次")
            }
            Self::TooManyToShuffle { examples } => format!("{examples} 个样例太多，无法打乱：请随机抽取"),
            Self::TooManyToSplit { examples } => format!("{examples} 个样例太多，无法打乱"),
            Self::Ratio(ratio) => format!("比例必须在 0 和 1 之间，现在是 {ratio}"),
            Self::ValFraction(fraction) => format!("验证集比例必须不小于 0 且小于 1，现在是 {fraction}"),
            Self::MaxLength { length, most } => {
                format!("max_length 必须在 2 到 {most} 之间，现在是 {length}")
            }
            Self::BlockSize { size, most } => format!("block_size 必须在 1 到 {most} 之间，现在是 {size}"),
            Self::Encoding(name) => {
                format!("没有 {name:?} 这种编码；例如 utf-8、gbk、gb18030、big5、utf-16le、shift_jis")
            }
            Self::NoFolder => "来自标准输入的数据，请指定输出文件夹".to_owned(),
        }
    }
}

impl Chinese for Unsuitable {
    fn chinese(&self) -> String {
        match self {
            Self::BuiltInAsText => "内置数据集是问答，不是文本".to_owned(),
            Self::RandomStats => "随机数据没有可统计的内容".to_owned(),
            Self::RandomSplit => "随机数据没有可划分的内容".to_owned(),
            Self::RandomGlance => "随机数据无法说明适合什么模型".to_owned(),
            Self::AlreadySplit(path) => format!("{} 已经划分好了", path.display()),
            Self::PrepareExamples(path) => format!("{} 不是文本：请直接用它训练", path.display()),
            Self::DifferentKinds => "训练数据和验证数据必须都是文本，或者都是问答".to_owned(),
            Self::NothingToRehearse => "没有可复习的样例".to_owned(),
            Self::NoSeparator => format!("这个分词器既没有 {SEP} 也没有 {END_OF_TEXT}，问答数据需要其中之一"),
        }
    }
}

impl Chinese for ColumnsError {
    fn chinese(&self) -> String {
        match self {
            Self::UnknownMeaning { meaning, near } => {
                format!("列：没有 {meaning:?} 这种含义；您是不是想写 {near}？")
            }
            Self::NoMeaning(meaning) => {
                let known: Vec<&str> =
                    RecordForm::ALL.iter().flat_map(|form| form.meanings()).copied().collect();
                format!("列：没有 {meaning:?} 这种含义；列的含义可以是 {}", known.join("、"))
            }
            Self::Unnamed(meaning) => format!("列：{meaning} 没有写列名"),
            Self::Twice(meaning) => format!("列：{meaning} 写了两次"),
            Self::NotTogether(meanings) => format!("列：没有哪种样例同时有 {}", meanings.join("、")),
            Self::NoColumns { name, read_as } => {
                format!("指定了列，但 {} 是{}，没有列", name.chinese(), after_chinese(read_as))
            }
            Self::NoSuchColumn { name, read_as, meaning } => {
                format!("列：{} 是{}，其中没有含义为 {meaning} 的列", name.chinese(), after_chinese(read_as))
            }
        }
    }
}

impl Chinese for TokensProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NotAMultiple { bytes, width } => {
                format!("{bytes} 字节不是 {width} 的倍数：文件被截断了，或者不是 {width} 字节一个 id 的文件")
            }
            Self::OtherTokenizer => "它的词元是用另一个分词器生成的".to_owned(),
            Self::BadMeta(problem) => format!("不是有效的数据说明：{}", outside(problem)),
            Self::OtherFormat { format, version } => format!("{format:?} {version} 不是这个版本能读的格式"),
            Self::OtherCount { tokens, described } => {
                format!("有 {tokens} 个词元，但 meta.json 写的是 {described}：请重新预处理数据")
            }
            Self::ChangedTokenizer => "旁边的分词器不是 meta.json 中写的那个：请重新预处理数据".to_owned(),
        }
    }
}

impl Chinese for DownloadProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Connection(problem) => outside(problem),
            Self::EndedEarly { have, total } => format!("连接在收到 {have} / {total} 字节后中断"),
            Self::Status(status) => format!("服务器回复 {status}"),
            Self::NeedsToken(status) => format!("服务器回复 {status}：是否需要令牌？"),
            Self::TokenWithheld(status) => {
                format!("服务器回复 {status}：没有发送令牌，因为这是明文 http 或另一台服务器")
            }
            Self::ResponseTooLong { limit } => format!("回复超过 {limit} 字节"),
            Self::Malformed => "服务器的回复格式有误".to_owned(),
            Self::Compressed => "服务器发来了没有要求的压缩数据".to_owned(),
            Self::BadRange(range) => format!("服务器的 Content-Range 格式有误：{range:?}"),
            Self::OtherRange { requested, range } => {
                format!("请求的是从第 {requested} 字节开始，服务器发来的却是 {range:?}")
            }
            Self::ShorterThanPart => "服务器上的文件比已下载的部分还短".to_owned(),
            Self::StalePart => "上次下载的部分属于另一个版本".to_owned(),
            Self::OtherLength { total, expected } => {
                format!("服务器上的文件有 {total} 字节，应为 {expected}")
            }
            Self::TooLarge { total, limit } => {
                format!("服务器上的文件有 {total} 字节，超过上限 {limit}")
            }
            Self::SentMore { total } => format!("服务器发来的数据超过文件的 {total} 字节"),
            Self::ChangedMeanwhile(path) => {
                format!("{} 在下载过程中被改动：是不是同时在下载两次？", path.display())
            }
            Self::NotAUrl { url, problem } => format!("{url:?} 不是网址：{}", outside(problem)),
            Self::NotHttp(url) => format!("{url:?} 不是以 https:// 或 http:// 开头的网址"),
            Self::LeavesHttps(url) => {
                format!("服务器从 https 重定向到 {url:?}，途中任何人都能看到内容")
            }
            Self::TooManyRedirects(most) => format!("服务器的重定向超过 {most} 次"),
        }
    }
}

impl Chinese for FileDamage {
    fn chinese(&self) -> String {
        match self {
            Self::Unrecorded => "缓存中的这个文件没有记录".to_owned(),
            Self::OtherHash { found, expected } => format!("缓存中的文件已损坏：是 {found}，应为 {expected}"),
        }
    }
}

impl Chinese for BadLine {
    fn chinese(&self) -> String {
        format!("第 {} 行：{}", self.line, self.reason.chinese())
    }
}

impl Chinese for BadRow {
    fn chinese(&self) -> String {
        match self {
            Self::NotUtf8 { byte, at } => format!("不是 UTF-8：第 {at} 个字节是 0x{byte:02x}"),
            Self::NotJson(problem) => format!("不是 JSON：{}", problem.chinese()),
            Self::NotARow(problem) => problem.chinese(),
            Self::NotJsonFromHere(problem) => format!("从这里起不是 JSON：{}", outside(problem)),
            Self::NotAnObject => "不是对象".to_owned(),
            Self::Duplicate(name) => format!("字段 {name:?} 重复"),
            Self::FieldCount { found, expected } => format!("有 {found} 个值，而表头有 {expected} 个列名"),
            Self::TooLong { mib } => format!("超过 {mib} MiB"),
            Self::Unreadable(problem) => outside(problem),
            Self::Blank => "只有空白字符".to_owned(),
            Self::OnlyText => "只有 \"text\"，没有问题和答案".to_owned(),
            Self::NoText => "没有 \"text\"".to_owned(),
            Self::NoColumns => "缺少 \"question\" 和 \"answer\"".to_owned(),
            Self::UnknownForm { columns } => format!(
                "有 {columns}：缺少 \"question\" 和 \"answer\"（或 \"messages\"、\"conversations\"、\"instruction\"、\"prompt\"、\"text\"）"
            ),
            Self::TwoForms => {
                "在 \"question\" 或 \"answer\" 之外又有 \"messages\"：只能有其中一种".to_owned()
            }
            Self::Missing(name) => format!("缺少 {name:?}"),
            Self::NotText { name, found } => format!("{name:?} 是{}，不是文本", after_chinese(found)),
            Self::NotAList { name, found } => format!("{name:?} 是{}，不是列表", after_chinese(found)),
            Self::EmptyList(name) => format!("{name:?} 是空的"),
            Self::NotObjects { name, found } => format!("{name:?} 中是{}，不是对象", after_chinese(found)),
            Self::History => "\"history\" 不是问答列表".to_owned(),
            Self::MessageNotText { field, found } => {
                format!("消息的 {field:?} 是{}，不是文本", after_chinese(found))
            }
            Self::MessageWithout(field) => format!("有一条消息没有 {field:?}"),
            Self::UnknownRole(name) => format!(
                "未知的角色 {name:?}，应为 \"system\"、\"user\"（或 \"human\"）或 \"assistant\"（或 \"gpt\"）"
            ),
        }
    }
}

impl Chinese for JsonProblem {
    fn chinese(&self) -> String {
        let message = outside(&self.message);
        match self.column {
            None => message,
            Some(column) => format!("{message}（第 {column} 列）"),
        }
    }
}

impl Chinese for JsonKind {
    fn chinese(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool => "true 或 false".to_owned(),
            Self::Number(number) => format!("数字 {number}"),
            Self::Text => "文本".to_owned(),
            Self::List => "列表".to_owned(),
            Self::Object => "对象".to_owned(),
        }
    }
}

impl Chinese for DataName {
    fn chinese(&self) -> String {
        match self {
            Self::Path(path) => path.clone(),
            Self::StandardInput => "标准输入".to_owned(),
            Self::Memory => "数据".to_owned(),
            Self::TrainingPart(whole) => format!("{} 的训练部分", whole.chinese()),
        }
    }
}

impl Chinese for Description {
    fn chinese(&self) -> String {
        match self {
            Self::BuiltIn => "内置问答".to_owned(),
            Self::Random => "随机 id 的行".to_owned(),
            Self::Tokens => "预处理好的词元".to_owned(),
            Self::Memory => "内存中的数据".to_owned(),
            Self::Text { encodings, instead_of } => {
                let instead = instead_of.map_or_else(String::new, |layout| {
                    format!("，按要求如此读取，尽管它是可以逐行读取的{}", after_chinese(&layout))
                });
                format!("{}文本{instead}", encoded(encodings))
            }
            Self::Texts { files, encodings } => match encodings.names() {
                [] => format!("{files} 个文本文件"),
                _ => format!("{files} 个 {}文本文件", encoded(encodings)),
            },
            Self::Rows { layout, form, encodings } => {
                let form = form.map_or_else(String::new, |form| format!("（{}）", form.chinese()));
                match encodings.names() {
                    [] => format!("{}{form}", layout.chinese()),
                    _ => format!("{}{}{form}", encoded(encodings), after_chinese(layout)),
                }
            }
            Self::Parts { train, has_validation: true } => format!("{}，分为两部分", train.chinese()),
            Self::Parts { train, has_validation: false } => format!("{}，训练部分", train.chinese()),
        }
    }
}

/// The encodings of data, before its name.
fn encoded(encodings: &Encodings) -> String {
    match encodings.names() {
        [] => String::new(),
        names => format!("{} 编码的", names.join("、")),
    }
}

impl Chinese for Layout {
    fn chinese(&self) -> String {
        let name = match self {
            Self::Jsonl => "JSON 行",
            Self::Json => "JSON 数组",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Parquet => "Parquet",
        };
        name.to_owned()
    }
}

impl Chinese for RecordForm {
    fn chinese(&self) -> String {
        let name = match self {
            Self::QuestionAnswer => "问题与答案",
            Self::PromptCompletion => "提示与续写",
            Self::Instruction => "指令与输出（Alpaca）",
            Self::Conversations => "对话（ShareGPT）",
            Self::Messages => "消息",
            Self::Text => "文本",
        };
        name.to_owned()
    }
}

impl Chinese for Damage {
    fn chinese(&self) -> String {
        format!("{} 有损坏：{} 个损坏的字符已换成 U+FFFD", self.name.chinese(), self.replaced)
    }
}

impl Chinese for UnknownNote {
    fn chinese(&self) -> String {
        let (named, others) = self.characters.most_frequent();
        let named: Vec<String> =
            named.iter().map(|(character, count)| format!("{character:?} × {count}")).collect();
        let others = if others > 0 { format!(" 等另外 {others} 种") } else { String::new() };
        let becomes = if self.has_unk { format!("记作 {UNK}") } else { "被略去".to_owned() };
        format!("{}{others} 不在词表中，{becomes}", named.join("、"))
    }
}

impl Chinese for InvalidUtf8 {
    fn chinese(&self) -> String {
        match self {
            Self::Byte(byte) | Self::Utf16(byte) => format!("0x{byte:02x}"),
            Self::EndOfFile => "文件在一个字符中间结束".to_owned(),
        }
    }
}

impl Chinese for FileKind {
    fn chinese(&self) -> String {
        let name = match self {
            Self::Zip => "zip 压缩包（或办公软件的文档）",
            Self::Gzip => "gzip 压缩文件",
            Self::Bzip2 => "bzip2 压缩文件",
            Self::Xz => "xz 压缩文件",
            Self::Zstd => "zstd 压缩文件",
            Self::Pdf => "PDF 文件",
            Self::Picture => "图片",
            Self::Model => "模型",
            Self::Program => "程序",
            Self::Binary => "二进制文件",
        };
        name.to_owned()
    }
}

impl Chinese for SplitUnit {
    fn chinese(&self) -> String {
        let name = match self {
            Self::Lines => "行",
            Self::Characters => "字符",
        };
        name.to_owned()
    }
}

impl Chinese for SetContents {
    fn chinese(&self) -> String {
        let text = match self {
            Self::Names => "32,000 个英文名字，每行一个",
            Self::Shakespeare => "小莎士比亚，与 nanoGPT 相同",
            Self::TinyStoriesValidation => "tinystories 的验证集",
            Self::TinyStories => "270 万个用简单词汇写成的英文故事",
            Self::JourneyToTheWest => "《西遊記》，繁体中文",
            Self::RedChamber => "《紅樓夢》，繁体中文",
        };
        text.to_owned()
    }
}

impl Chinese for Licence {
    fn chinese(&self) -> String {
        match self {
            Self::Mit | Self::CdlaSharing => self.to_string(),
            Self::PublicDomain => "公有领域".to_owned(),
        }
    }
}
