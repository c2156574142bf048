//! Every setting of a run: what it means, in English and in Chinese, and what it may be. The help, the page in `docs/`
//! and the check of a configuration all come from this table; defaults come from the types that hold the settings.

use crate::error::{Error, Result};
use crate::run_config::{DataConfig, RunConfig, SampleConfig};
use minigpt_charts::count;
use minigpt_model::{Config, Initialization};
use minigpt_train::TrainConfig;
use serde::Serialize;
use serde_json::Value;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingInfo {
    /// The section it stands in: `train`.
    pub section: &'static str,
    /// Its name there: `max_iters`.
    pub key: &'static str,
    /// What it may be.
    pub allowed: Allowed,
    /// What it means.
    pub meaning: &'static str,
    /// The same in Chinese.
    pub meaning_zh: &'static str,
}

/// What a setting may be.
#[derive(Debug, Clone, Copy)]
pub enum Allowed {
    /// A whole number, from the first to the last of these.
    Whole(u64, u64),
    /// A number.
    Number(Bound<f64>, Bound<f64>),
    /// Yes or no.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text; the meaning says more.
    Text,
    /// Names by name, `{ question = "Q" }`.
    Names,
}

use Allowed::{Names, Number, Switch, Text, Whole, Word};

/// No limit but that of the file's numbers.
const MANY: u64 = i64::MAX as u64;
/// A part of something: 0 to below 1.
const PART: Allowed = Number(Included(0.0), Excluded(1.0));
/// Above 0 and below 1.
const INSIDE: Allowed = Number(Excluded(0.0), Excluded(1.0));
/// An example of names by name.
const NAMES: &str = r#"{ question = "Q", answer = "A" }"#;
/// 0 or more.
const POSITIVE: Allowed = Number(Included(0.0), Unbounded);

/// The sections in the order of a file, with what they are about in English and in Chinese.
pub const SECTIONS: [(&str, &str, &str); 4] = [
    ("model", "what the model is", "模型的结构"),
    ("data", "what it is trained on", "训练数据"),
    ("train", "how it is trained", "训练方法"),
    ("sample", "what is shown of it meanwhile", "训练途中展示的样例"),
];

/// Every setting, section by section.
#[rustfmt::skip]
pub const SETTINGS: &[SettingInfo] = &[
    model("preset", Text, "A ready shape to begin with (`gpt2`, `shakespeare-cpu`, `qa`, …); the other settings change it.", "以某个预设结构为起点（`gpt2`、`shakespeare-cpu`、`qa` 等），其余设置在其上修改。"),
    model("init", Word(&["gpt2", "plain", "pytorch"]), "How new weights are drawn: as GPT-2 does, all alike (`plain`), or as PyTorch's layers do.", "新权重的初始化方式：按 GPT-2、一律相同（`plain`），或按 PyTorch 各层的默认方式。"),
    model("vocab_size", Whole(1, 1 << 30), "How many different tokens there are. The tokenizer decides where there is one.", "词表大小。有分词器时由分词器决定。"),
    model("block_size", Whole(1, 1 << 24), "The longest context, in tokens.", "上下文的最大长度（词元数）。"),
    model("n_layer", Whole(1, 1 << 12), "How many blocks.", "层（block）数。"),
    model("n_head", Whole(1, 1 << 12), "How many attention heads a block has; `n_embd` must be divisible by it.", "每层注意力头数；`n_embd` 必须能被它整除。"),
    model("n_embd", Whole(1, 1 << 18), "The width of the residual stream.", "残差流的宽度（嵌入维度）。"),
    model("n_inner", Whole(1, 1 << 20), "The width inside the MLP; four times `n_embd` when absent.", "MLP 内部宽度；不设时为 `n_embd` 的四倍。"),
    model("activation_function", Word(&["gelu_new", "gelu", "relu"]), "The nonlinearity inside the MLP; `gelu_new` is GPT-2's tanh form.", "MLP 的激活函数；`gelu_new` 是 GPT-2 的 tanh 形式。"),
    model("norm_position", Word(&["pre", "post"]), "Whether a block normalises what it reads (`pre`) or what it has added (`post`).", "归一化的位置：在子层之前（`pre`）或在残差相加之后（`post`）。"),
    model("position_embedding", Word(&["learned", "sinusoidal", "rope", "none"]), "How a token learns where it stands.", "位置编码的方式。"),
    model("scale_embeddings", Switch, "Whether token embeddings are multiplied by the root of `n_embd`.", "词嵌入是否乘以 `n_embd` 的平方根。"),
    model("qkv_bias", Switch, "Whether the projection to queries, keys and values has biases.", "查询、键、值投影是否带偏置。"),
    model("attn_out_bias", Switch, "Whether the attention's output projection has biases.", "注意力输出投影是否带偏置。"),
    model("mlp_bias", Switch, "Whether the MLP's two layers have biases.", "MLP 的两层是否带偏置。"),
    model("norm_bias", Switch, "Whether the norms have biases.", "归一化层是否带偏置。"),
    model("lm_head_bias", Switch, "Whether the output head has biases.", "输出层是否带偏置。"),
    model("tie_word_embeddings", Switch, "Whether the output head is the token embedding.", "输出层是否与词嵌入共用权重。"),
    model("layer_norm_epsilon", INSIDE, "What keeps a norm from dividing by zero.", "归一化中防止除以零的小量。"),
    model("embd_pdrop", PART, "Dropout on the sum of the embeddings.", "嵌入之和的 dropout。"),
    model("attn_pdrop", PART, "Dropout on attention weights.", "注意力权重的 dropout。"),
    model("resid_pdrop", PART, "Dropout on what attention and MLP add to the residual stream.", "注意力与 MLP 加入残差流之前的 dropout。"),
    model("initializer_range", INSIDE, "The standard deviation of initial weights.", "初始权重的标准差。"),
    model("bias", Switch, "nanoGPT's one switch for the biases of linear layers and norms: `qkv_bias`, `attn_out_bias`, `mlp_bias` and `norm_bias` at once.", "nanoGPT 的偏置总开关：同时设置 `qkv_bias`、`attn_out_bias`、`mlp_bias` 和 `norm_bias`。"),
    model("dropout", PART, "nanoGPT's one number for dropout: `embd_pdrop`, `attn_pdrop` and `resid_pdrop` at once.", "nanoGPT 的 dropout 总设置：同时设置 `embd_pdrop`、`attn_pdrop` 和 `resid_pdrop`。"),
    data("path", Text, "What to train on: a text, a file of examples, a folder of either, a prepared folder, `builtin` or `random`.", "训练数据：文本、样例文件、装有它们的文件夹、预处理好的文件夹、`builtin` 或 `random`。"),
    data("val_path", Text, "Data to judge by; a part of the other when absent.", "验证数据；不设时从训练数据中划出一部分。"),
    data("kind", Word(&["text", "qa"]), "What the data is read as; the data tells when absent.", "数据的类型；不设时自动判断。"),
    data("columns", Names, "Which columns or fields to read, for example `{ question = \"Q\", answer = \"A\" }`; those with the usual names when absent.", "读取哪些列或字段，例如 `{ question = \"Q\", answer = \"A\" }`；不设时取常见名称。"),
    data("encoding", Text, "What the text is written in, for example `gbk`; found out when absent.", "文本编码，例如 `gbk`；不设时自动判断。"),
    data("tokenizer", Text, "`char`, `bpe:2000` (learnt from the data), `gpt2`, or a tokenizer's file; the data's own, or characters, when absent.", "`char`、`bpe:2000`（从数据中学习）、`gpt2` 或分词器文件；不设时用数据自带的，否则按字符。"),
    data("val_fraction", PART, "The part kept for validation.", "留作验证的比例。"),
    data("max_length", Whole(2, 1 << 24), "The longest question/answer example, in tokens.", "问答样例的最大长度（词元数）。"),
    data("loss_on", Word(&["all", "answer"]), "Which tokens of an example are learned: all of them, or those of the answer.", "样例中哪些词元计入损失：全部，或只算回答。"),
    data("format", Word(&["own", "questions"]), "How examples are written for a model that is trained further: in its `own` chat template, or as `questions` with separators, which replaces its template. When absent its own, where it has one.", "微调时样例的写法：`own` 用模型自己的对话模板；`questions` 用问题、分隔符、回答的形式，并取代原来的模板。不设时，模型有模板就用它的。"),
    data("rehearse_path", Text, "Questions and answers that a model knows already, for training it further: they make up half of each batch, so that it keeps them; empty for none.", "微调时，模型原本会的问答：每批有一半取自其中，以免遗忘；空为不用。"),
    data("order", Word(&["sequential", "shuffled", "random"]), "In which order examples come: `random` windows for text, `shuffled` epochs for questions when absent.", "样例的顺序；不设时文本为 `random`（随机窗口），问答为 `shuffled`（每轮打乱）。"),
    data("limit", Whole(1, MANY), "Only so many characters, tokens or examples of the data.", "只用这么多字符、词元或样例。"),
    train("max_iters", Whole(1, 1 << 53), "Steps to make in all. Either this or `epochs` says how long the run is.", "总步数。训练长度由它或 `epochs` 之一决定。"),
    train("epochs", Whole(1, 1 << 32), "Passes over the data, each ended by an evaluation, instead of `max_iters`. One of the two that is named on the command line goes before the other in a file; both in one place are refused.", "以遍历数据的轮数代替 `max_iters`；每轮结束时验证一次。命令行给出其中一个时，文件里的另一个不起作用；同一处两个都给出则报错。"),
    train("batch_size", Whole(1, 1 << 16), "Rows in a micro-batch.", "每个微批次的行数。"),
    train("gradient_accumulation_steps", Whole(1, 1 << 16), "Micro-batches whose gradients make one step.", "累积多少个微批次的梯度后更新一步。"),
    train("parts", Whole(0, 4096), "Parts that each batch is split into, on all ranks and threads together: the last digits of the weights depend on it, and on neither of those. 0 for one a thread on every rank.", "每个批次分成多少份，由所有进程和线程分担：权重的末位数字只取决于它，与进程数、线程数无关。0 为每个进程的每个线程一份。"),
    train("learning_rate", POSITIVE, "The full learning rate.", "最高学习率。"),
    train("min_lr", POSITIVE, "The learning rate at the end.", "最终学习率。"),
    train("warmup_iters", Whole(0, MANY), "Steps in which the rate climbs to its full height.", "学习率升到最高所用的步数（预热）。"),
    train("lr_decay_iters", Whole(0, MANY), "The step at which the rate has fallen to `min_lr`; the last step when absent.", "学习率降到 `min_lr` 的那一步；不设时为最后一步。"),
    train("lr_decay", Word(&["cosine", "linear", "constant"]), "How the rate falls.", "学习率的下降方式。"),
    train("optimizer", Word(&["adamw", "muon"]), "Which rule moves the matrices inside the blocks; `muon` leaves the rest to AdamW.", "层内矩阵的优化器；选 `muon` 时其余参数仍用 AdamW。"),
    train("muon_ratio", POSITIVE, "Muon's learning rate over `learning_rate`.", "Muon 的学习率与 `learning_rate` 之比。"),
    train("muon_momentum", PART, "How much of Muon's momentum stays each step; less suits a short run.", "Muon 的动量系数；训练步数少时宜小一些。"),
    train("weight_decay", POSITIVE, "The share of a matrix that decays each step, times the learning rate.", "权重衰减系数（再乘以学习率）。"),
    train("beta1", PART, "How much of a gradient's smoothed mean stays each step.", "梯度一阶矩的平滑系数。"),
    train("beta2", PART, "How much of its smoothed square stays each step.", "梯度二阶矩的平滑系数。"),
    train("eps", POSITIVE, "What keeps AdamW's division from exploding.", "AdamW 中防止除以零的小量。"),
    train("grad_clip", POSITIVE, "The largest gradient norm; 0 for no limit.", "梯度范数的上限；0 为不限。"),
    train("eval_interval", Whole(0, MANY), "Steps between evaluations; 0 for none but the last.", "每隔多少步验证一次；0 为只在最后验证。"),
    train("eval_iters", Whole(0, MANY), "Batches of an evaluation, always the same ones; 0 for all.", "每次验证用多少个批次（总是同一些）；0 为全部。"),
    train("log_interval", Whole(1, MANY), "Steps between lines of the log.", "每隔多少步记录一行日志。"),
    train("save_interval", Whole(0, MANY), "Steps between checkpoints; 0 for one with each evaluation.", "每隔多少步保存一次检查点；0 为随每次验证保存。"),
    train("save_seconds", POSITIVE, "Seconds after which a checkpoint is due whatever the step; 0 for never.", "每隔多少秒保存一次检查点，不论步数；0 为不按时间保存。"),
    train("keep_checkpoints", Whole(0, MANY), "Checkpoints to keep beside `last` and `best`, each under its step.", "除 `last` 和 `best` 外另保留多少个检查点，以步数命名。"),
    train("snapshots", Whole(0, 1024), "Copies of the model in f16 to keep in `snapshots`, close to each other at first and ever farther apart, to look back at how it learned; 0 for none. Of models of up to 5 million parameters 16 where nothing is said, of larger ones none.", "在 `snapshots` 中保留多少份 f16 模型副本，先密后疏，便于回看学习过程；0 为不保留。不设置时，500 万参数以内的模型保留 16 份，更大的不保留。"),
    train("best_by", Word(&["loss", "answers"]), "What the best model is chosen by: the lowest validation loss, or the most questions answered word for word, of the validation part or, if none is kept, of the training part.", "按什么选出最佳模型：`loss` 为验证损失最低；`answers` 为逐字答对的问题最多（用验证部分的问题，没有留出时用训练部分的）。"),
    train("patience", Whole(0, MANY), "Evaluations without a better one after which to stop; 0 for never.", "连续多少次验证没有改善就停止；0 为不提前停止。"),
    train("sample_interval", Whole(0, MANY), "Steps between samples; 0 for none.", "每隔多少步展示一段样例；0 为不展示。"),
    train("max_minutes", POSITIVE, "Minutes after which to stop, counted from the start or the resume; 0 for never.", "运行多少分钟后停止，从开始或继续时算起；0 为不限。"),
    train("seed", Whole(0, MANY), "What everything random comes from.", "一切随机数的种子。"),
    SettingInfo { section: "sample", key: "prompt", allowed: Text, meaning: "What each sample (see `train.sample_interval`) begins with.", meaning_zh: "每段样例的开头（见 `train.sample_interval`）。" },
];

const fn model(key: &'static str, allowed: Allowed, meaning: &'static str, zh: &'static str) -> SettingInfo {
    SettingInfo { section: "model", key, allowed, meaning, meaning_zh: zh }
}

const fn data(key: &'static str, allowed: Allowed, meaning: &'static str, zh: &'static str) -> SettingInfo {
    SettingInfo { section: "data", key, allowed, meaning, meaning_zh: zh }
}

const fn train(key: &'static str, allowed: Allowed, meaning: &'static str, zh: &'static str) -> SettingInfo {
    SettingInfo { section: "train", key, allowed, meaning, meaning_zh: zh }
}

impl SettingInfo {
    /// Its section and its key: `train.max_iters`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// What it is where nobody sets it; none where it is then absent.
    pub fn default_value(&self) -> Option<Value> {
        let value = match (self.section, self.key) {
            ("model", "init") => json(&Initialization::default()),
            ("model", key) => json(&Config::default()).get(key).cloned()?,
            ("data", key) => json(&DataConfig::default()).get(key).cloned()?,
            ("train", key) => json(&TrainConfig::default()).get(key).cloned()?,
            (_, key) => json(&SampleConfig::default()).get(key).cloned()?,
        };
        let is_empty =
            value.is_null() || value == "" || value.as_object().is_some_and(|names| names.is_empty());
        (!is_empty).then_some(value)
    }
}

impl Allowed {
    /// What is allowed, in English.
    pub fn in_words(&self) -> String {
        match *self {
            Whole(from, MANY) => format!("{from} or more"),
            Whole(from, to) => format!("{from} to {}", count(to)),
            Number(Included(from), Unbounded) => format!("{from} or more"),
            Number(Included(from), Excluded(to)) => format!("{from} to below {to}"),
            Number(Excluded(from), Excluded(to)) => format!("above {from}, below {to}"),
            Number(..) => "a number".to_owned(),
            Switch => "true, false".to_owned(),
            Word(words) => words.join(", "),
            Text => "text".to_owned(),
            Names => "names".to_owned(),
        }
    }

    /// The same as what must be, for somebody who said something of another kind.
    pub(crate) fn rule(&self) -> String {
        match self {
            Whole(..) => format!("a whole number, {}", self.in_words()),
            Number(..) => format!("a number, {}", self.in_words()),
            Switch => self.in_words(),
            Word(words) => format!("one of these: {}", words.join(", ")),
            Text => "a word or a text".to_owned(),
            Names => format!("names by name, for example {NAMES}"),
        }
    }

    /// The same in Chinese.
    pub fn in_chinese(&self) -> String {
        match *self {
            Whole(from, MANY) => format!("≥ {from} 的整数"),
            Whole(from, to) => format!("{from} 到 {} 的整数", count(to)),
            Number(Included(from), Unbounded) => format!("≥ {from}"),
            Number(Included(from), Excluded(to)) => format!("≥ {from} 且 < {to}"),
            Number(Excluded(from), Excluded(to)) => format!("> {from} 且 < {to}"),
            Number(..) => "数".to_owned(),
            Switch => "true、false".to_owned(),
            Word(words) => words.join("、"),
            Text => "文本".to_owned(),
            Names => "名称对照".to_owned(),
        }
    }

    /// Whether a number may be. The words and switches are known to the types that hold them.
    fn holds(&self, value: &Value) -> bool {
        match (*self, value.as_u64(), value.as_f64()) {
            (Whole(from, to), Some(n), _) => (from..=to).contains(&n),
            // JSON has no number for what is not finite.
            (Number(from, to), _, number) => {
                number.is_some_and(|n| std::ops::RangeBounds::contains(&(from, to), &n))
            }
            _ => true,
        }
    }
}

/// Checks every number of a configuration; the error names the setting.
pub(crate) fn check(config: &RunConfig) -> Result<()> {
    let sections = json(config);
    for setting in SETTINGS {
        // An absent setting is fine, but a number that is not finite is null, too.
        let Some(value) = sections[setting.section].get(setting.key) else { continue };
        let optional = setting.default_value().is_none();
        if !(setting.allowed.holds(value) || optional && value.is_null()) {
            let shown = if value.is_null() { "not finite".to_owned() } else { value.to_string() };
            let (name, allowed) = (setting.name(), setting.allowed.in_words());
            return Err(Error::Setting(format!("{name} is {shown}; it must be {allowed}")));
        }
    }
    Ok(())
}

fn json(section: &impl Serialize) -> Value {
    serde_json::to_value(section).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parse(section: &str, key: &str, value: impl std::fmt::Display) -> Result<RunConfig> {
        let path = if (section, key) == ("data", "path") { "" } else { "data.path = \"a\"\n" };
        RunConfig::parse(&format!("{path}{section}.{key} = {value}"), &[])
    }

    #[test]
    fn a_token_has_one_name_in_chinese() {
        let english = SETTINGS.iter().filter(|setting| setting.meaning_zh.contains("token"));
        assert_eq!(english.map(SettingInfo::name).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn the_table_has_every_setting_and_nothing_else() {
        let config = json(&RunConfig::parse("[data]\npath = \"a\"", &[]).unwrap());
        let keys = |section: &str| config[section].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut known: BTreeSet<String> =
            ["model.preset", "model.bias", "model.dropout"].map(String::from).into();
        for (section, ..) in SECTIONS {
            known.extend(keys(section).iter().map(|key| format!("{section}.{key}")));
        }
        let table: BTreeSet<String> = SETTINGS.iter().map(SettingInfo::name).collect();
        assert_eq!(table, known);
        assert_eq!(table.len(), SETTINGS.len(), "a setting stands in the table twice");
    }

    #[test]
    fn a_range_that_is_stated_is_the_one_that_holds() {
        let refused = |setting: &SettingInfo, value: &str| match parse(setting.section, setting.key, value) {
            Ok(_) => panic!("{} may be {value}", setting.name()),
            Err(error) => assert!(error.to_string().contains(setting.key), "{value}: {error}"),
        };
        // Another rule may refuse it (n_embd must be divisible by n_head), but not that of its range.
        let allowed = |setting: &SettingInfo, value: &str| match parse(setting.section, setting.key, value) {
            Err(error) if error.to_string().contains("must be ") => panic!("{value}: {error}"),
            _ => {}
        };
        for setting in SETTINGS {
            match setting.allowed {
                Whole(from, to) => {
                    [from, to].iter().for_each(|n| allowed(setting, &n.to_string()));
                    refused(setting, &(from as i64 - 1).to_string());
                    if to < MANY {
                        refused(setting, &(to + 1).to_string());
                    }
                    refused(setting, "1.5");
                    refused(setting, "\"x\"");
                }
                Number(from, to) => {
                    let (Included(low) | Excluded(low)) = from else { continue };
                    refused(setting, &format!("{:?}", low - 1e-9));
                    refused(setting, "nan");
                    refused(setting, "inf");
                    match from {
                        Excluded(_) => refused(setting, &format!("{low:?}")),
                        _ => allowed(setting, &format!("{low:?}")),
                    }
                    match to {
                        Excluded(high) => refused(setting, &format!("{high:?}")),
                        _ => allowed(setting, "1e9"),
                    }
                }
                Switch => ["7", "\"yes\""].iter().for_each(|value| refused(setting, value)),
                Word(words) => {
                    words.iter().for_each(|word| {
                        assert!(parse(setting.section, setting.key, format!("{word:?}")).is_ok());
                    });
                    refused(setting, "\"no such word\"");
                }
                Text | Names => {}
            }
        }
    }

    #[test]
    fn every_meaning_is_a_sentence_in_both_languages() {
        for setting in SETTINGS {
            assert!(
                setting.meaning.ends_with('.') && setting.meaning.is_ascii() | setting.meaning.contains('…')
            );
            assert!(setting.meaning_zh.ends_with('。'), "{}", setting.name());
        }
    }
}
