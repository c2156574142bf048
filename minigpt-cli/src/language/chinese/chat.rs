//! Messages of minigpt-chat.

use super::Chinese;
use minigpt::chat::{ConversationProblem, Error, Format, TemplateCause, TemplateFailure, TemplateProblem};

impl Chinese for Error {
    fn chinese(&self) -> String {
        match self {
            Self::Conversation(problem) => problem.chinese(),
            Self::Template { failure, .. } => format!("模型的对话模板{}", failure.chinese()),
            Self::Data(error) => error.chinese(),
            Self::Tokenizer(error) => error.chinese(),
        }
    }
}

impl Chinese for ConversationProblem {
    fn chinese(&self) -> String {
        let problem = match self {
            Self::NotTurnByTurn => "模型的对话模板不是逐轮写出这段对话的，无法区分其中哪些是回答",
            Self::NoPrivateCharacter => "文本用尽了 Unicode 的所有私用字符",
        };
        problem.to_owned()
    }
}

impl Chinese for TemplateFailure {
    fn chinese(&self) -> String {
        let failure = match self {
            Self::Invalid => "有错误",
            Self::Failed => "执行失败",
            Self::TooManySteps => "执行超过 3,000,000 步",
        };
        failure.to_owned()
    }
}

impl Chinese for TemplateCause {
    fn chinese(&self) -> String {
        match self {
            Self::Problem { problem, line: Some(line) } => format!("第 {line} 行：{}", problem.chinese()),
            Self::Problem { problem, line: None } => problem.chinese(),
            Self::Engine(error) => error.to_string(),
        }
    }
}

impl Chinese for TemplateProblem {
    fn chinese(&self) -> String {
        match self {
            Self::SourceTooLong => "超过 1 MiB".to_owned(),
            Self::UnopenedBracket => "有多余的右括号".to_owned(),
            Self::ExpressionTooDeep(most) => format!("一个表达式中连续或嵌套的运算符超过 {most} 个"),
            Self::TooManyBranches(most) => format!("分支超过 {most} 个"),
            Self::ValueTooLarge => "产生了超过 8 MiB 的值".to_owned(),
            Self::TooMuch => "产生的值总计超过 128 MiB".to_owned(),
            Self::ValueTooDeep => "产生的值嵌套超过 64 层".to_owned(),
            Self::TooSlow => "耗时超过 3 秒".to_owned(),
            Self::MultipliedTuple => "元组不能相乘".to_owned(),
            Self::ZeroStep => "切片的步长不能是 0".to_owned(),
            Self::NotSliceable(kind) => format!("类型 {kind} 的值不能切片"),
            Self::StripsTooMuch => "最多能去除 1000 个字符".to_owned(),
            Self::SortsTooMuch => "排序的内容太多".to_owned(),
            Self::FormatTooLarge => "格式化结果超过 8 MiB，或宽度超过 999".to_owned(),
            Self::NoJson(kind) => format!("类型为 {kind} 的值不能写成 JSON"),
            Self::JsonOptions => "tojson 不支持 ensure_ascii 和 sort_keys".to_owned(),
            Self::JsonIndent(most) => format!("tojson 的缩进最多为 {most}"),
            Self::JsonSeparators => "tojson 的分隔符必须是两个".to_owned(),
            Self::JsonSeparatorLength(most) => format!("tojson 的分隔符合计最多 {most} 个字符"),
            Self::TimeFormatTooLong => "strftime_now 的格式最多 1000 个字符".to_owned(),
            Self::TimeFormat(letter) => format!("strftime_now 不支持 %{letter}"),
            Self::NoThread(error) => format!("无法为它启动线程：{error}"),
            Self::Panicked => "它使模板引擎崩溃".to_owned(),
        }
    }
}

impl Chinese for Format {
    fn chinese(&self) -> String {
        let format = match self {
            Self::Qa => "问题 <sep> 答案 <sep>，与训练时一致",
            Self::Template(_) => "模型自带的对话模板",
            Self::Plain => "纯文本：模型接着您的文字往下写",
        };
        format.to_owned()
    }
}
