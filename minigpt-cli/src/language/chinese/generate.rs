//! Messages of minigpt-generate.

use super::Chinese;
use minigpt_generate::{
    ConstraintProblem, Error, GbnfError, GbnfProblem, PromptProblem, Refused, SettingLimit, SettingProblem,
    SettingRange, WhichPrompt,
};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Config { field, problem } => format!("{field} {}", problem.chinese()),
            Self::ConfigJson(error) => format!("生成配置无效：{error}"),
            Self::NoPrompts => "提示列表是空的".to_owned(),
            Self::Prompt { which, problem } => format!("{}{}", which.chinese(), problem.chinese()),
            Self::NotFinite { position, id, value } => format!(
                "在 {position} 个词元之后，模型对词元 {id} 给出的是 {value} 而不是数：权重已损坏，或超出了其精度"
            ),
            Self::NoToken { position } => format!(
                "在 {position} 个词元之后已没有可选的词元：schema 或语法、logit_bias、bad_words_ids、suppress_tokens 和 \
                 min_new_tokens 把全部都禁止了"
            ),
            Self::Constraint(problem) => format!("无法遵循该 schema 或语法：{}", problem.chinese()),
            Self::Model(error) => error.chinese(),
            Self::Pass(error) => format!("模型无法运行：{}", error.chinese()),
            Self::NoSlot => "内部错误：缺少一个缓存槽位".to_owned(),
            Self::Refused(refused) => refused.chinese(),
            Self::Panicked { message } => format!("内部错误，生成已停止：{message}"),
            Self::Stopped => "文本还没有写完，引擎就停止了".to_owned(),
            Self::EngineFailed { message } => format!("引擎因内部错误而停止：{message}"),
        }
    }
}

impl Chinese for Refused {
    fn chinese(&self) -> String {
        match self {
            Self::QueueFull { limit } => format!("已有 {limit} 个请求在等待，达到上限：请稍后再试"),
            Self::TooLong { prompt, context } => {
                format!("提示有 {prompt} 个词元，在 {context} 个词元的上下文中没有留给回答的位置")
            }
            Self::Invalid(error) => error.chinese(),
            Self::Stopping => "引擎正在停止，不再接受请求".to_owned(),
            Self::EngineFailed { message } => format!("引擎因内部错误而停止：{message}"),
        }
    }
}

impl Chinese for SettingProblem {
    fn chinese(&self) -> String {
        match self {
            Self::OutOfRange { range, value } => format!("必须{}，现在是 {value}", range.chinese()),
            Self::TooLarge { limit, most, value } => {
                format!("不能超过{}（{most}），现在是 {value}", limit.chinese())
            }
            Self::WrongType { value, reason } => format!("是 {value}：{reason}"),
            Self::EarlyStopping(value) => format!("必须是 false、true 或 \"never\"，现在是 {value}"),
            Self::UnknownStyle(name) => format!("必须是 story、code、summary 或 exact，现在是 {name}"),
            Self::UnknownToken { id, vocab_size } => {
                format!("提到词元 {id}，超出了 {vocab_size} 个词元的词表")
            }
            Self::Bias { id, bias } => format!("中词元 {id} 的值是 {bias}"),
            Self::EmptyString => "中有空字符串，它会立刻结束任何文本".to_owned(),
            Self::EmptyWord => "中有一个没有词元的词".to_owned(),
            Self::NoTokenizer => "需要分词器，而这个模型没有".to_owned(),
            Self::SampledBeams(beams) => format!("是 {beams}，但束搜索不采样：请关闭 do_sample"),
            Self::OneGreedyAnswer(count) => {
                format!("是 {count}，但贪心解码只有一个答案：请采样，或用束搜索")
            }
            Self::BeamsWithGrammar(beams) => format!("在有 schema 或语法时必须是 1，现在是 {beams}"),
            Self::SearchWithGrammar => "不能与 schema 或语法同时使用".to_owned(),
            Self::MinimumWithGrammar(least) => {
                format!("在有 schema 或语法时必须是 0，现在是 {least}：语法在哪里结束，文本就在哪里结束")
            }
            Self::StreamedBeams => "必须是 1 才能逐个词元输出：束搜索只给出完整的文本".to_owned(),
        }
    }
}

impl Chinese for SettingRange {
    fn chinese(&self) -> String {
        match self {
            Self::AtLeastOne => "至少是 1".to_owned(),
            Self::Finite => "是有限的数".to_owned(),
            Self::Share => "大于 0 且不超过 1".to_owned(),
            Self::Temperature(most) => format!("在 0（贪心）到 {most} 之间"),
            Self::FromTo(least, most) => format!("在 {least} 到 {most} 之间"),
        }
    }
}

impl Chinese for SettingLimit {
    fn chinese(&self) -> String {
        let limit = match self {
            Self::MaxNewTokens => " max_new_tokens",
            Self::NumBeams => " num_beams",
            Self::Vocabulary => "词表大小",
            Self::Slots => "同时生成的文本数",
        };
        limit.to_owned()
    }
}

impl Chinese for WhichPrompt {
    fn chinese(&self) -> String {
        match self {
            Self::Only => "提示".to_owned(),
            Self::Of { number, count } => format!("第 {number} 个提示（共 {count} 个）"),
        }
    }
}

impl Chinese for PromptProblem {
    fn chinese(&self) -> String {
        match self {
            Self::Empty => "是空的：至少要有一个开头的词元".to_owned(),
            Self::UnknownToken { id, position, vocab_size } => {
                format!("的第 {position} 个位置是 id {id}，超出了 {vocab_size} 个词元的词表")
            }
            Self::TooLong { tokens, block_size } => {
                format!("有 {tokens} 个词元，超过了模型 {block_size} 的上下文")
            }
            Self::NoRoom { block_size } => {
                format!("有 {block_size} 个词元，占满了模型的上下文，没有留给回答的位置")
            }
        }
    }
}

impl Chinese for ConstraintProblem {
    fn chinese(&self) -> String {
        match self {
            Self::VocabularyTooLarge { bytes, most } => {
                format!("词表的词元共 {bytes} 字节，最多支持 {most} 字节")
            }
            Self::TooLarge { bytes, most } => format!("有 {bytes} 字节，最多允许 {most} 字节"),
            Self::NoThread(error) => format!("无法启动编译线程：{error}"),
            Self::NoFirstToken => "词表中没有任何词元可以作为合乎要求的文本的开头".to_owned(),
            Self::NoNextToken => "词表中没有任何词元可以让文本继续下去".to_owned(),
            Self::NoChoices => "没有可供选择的内容".to_owned(),
            Self::FalseSchema => "没有任何值满足 schema false".to_owned(),
            Self::NotAnObject => "schema 必须是一个对象".to_owned(),
            Self::Keyword(name) => format!("schema 中不支持 {name}"),
            Self::MultipleOf { least, most } => format!("multipleOf 必须在 {least} 到 {most} 之间"),
            Self::TooDeep(levels) => format!("嵌套超过 {levels} 层"),
            Self::OverlappingOneOf => "只有各个选项互相排斥时才支持 oneOf：请用 anyOf".to_owned(),
            Self::TooAmbiguous => "它的歧义太多或太大：到目前为止的文本有太多种解读方式".to_owned(),
            Self::Gbnf(error) => error.chinese(),
            Self::Engine(message) => message.clone(),
        }
    }
}

impl Chinese for GbnfError {
    fn chinese(&self) -> String {
        match self {
            Self::NoRoot => "语法中没有名为 root 的规则".to_owned(),
            Self::Line { line, problem } => format!("第 {line} 行：{}", problem.chinese()),
        }
    }
}

impl Chinese for GbnfProblem {
    fn chinese(&self) -> String {
        match self {
            Self::NoRule(name) => format!("没有名为 {name} 的规则"),
            Self::ExpectedName => "此处应为规则名".to_owned(),
            Self::ExpectedDefinition(name) => format!("{name} 之后应为 ::="),
            Self::ExpectedLineEnd => "此处应为行尾".to_owned(),
            Self::Expected(text) => format!("此处应有 {text}"),
            Self::ExpectedBeforeLineEnd(text) => format!("行尾之前应有 {text}"),
            Self::ExpectedEscape => "\\ 之后应有一个字符".to_owned(),
            Self::DuplicateRule(name) => format!("规则 {name} 重复定义"),
            Self::Token => "不支持 <name> 和 <[1]> 这样的词元：请直接写出它们的文本".to_owned(),
            Self::NothingToRepeat(sign) => format!("{sign} 之前没有可重复的内容"),
            Self::TooDeep(levels) => format!("括号嵌套超过 {levels} 层"),
            Self::TooManyRepetitions => "重复的嵌套过多".to_owned(),
            Self::Repetition(most) => {
                format!("重复次数应为一个数，或由小到大的两个数，最大 {most}")
            }
            Self::ReversedRange => "字符类中的范围起止颠倒".to_owned(),
            Self::EmptyClass => "字符类中没有字符".to_owned(),
            Self::UnknownEscape(escaped) => format!("未知的转义 \\{escaped}"),
            Self::EscapeDigits { escape, digits } => {
                format!("\\{escape} 之后应为 {digits} 位表示字符的十六进制数字")
            }
            Self::TooManyRules(most) => format!("规则超过 {most} 条"),
        }
    }
}
