// What the server says in English, in Chinese. Each message is written as in the server's sources, with
// the places of its values; page-tests/messages.test.js holds both against each other.
import { t } from "./i18n.js";

/** `[English, Chinese]`: `{…}` stands for a value, in the same order or, as `{1}`, by its number. */
export const CHINESE = [
  // Questions about the inside of a model.
  [
    "patching needs two texts of equal length; these have {clean} and {corrupt} tokens",
    "两段文字的词元数必须相同；现在分别是 {1} 个和 {2} 个。",
  ],
  ["the two texts are the same: there is nothing to patch", "两段文字完全一样，没有可比较的地方。"],
  [
    "both texts lead to the token {id} {name}: name another token to compare it with",
    "两段文字都引出同一个词元 {2}，请换一段文字。",
  ],
  [
    "the difference of the two logits is the same after both texts: there is nothing to restore",
    "两个 logit 之差在两段文字后相同，谈不上恢复多少。",
  ],
  [
    "patching {} tokens would take {passes} passes through this model: take a shorter text",
    "比较 {1} 个词元要让模型运行 {2} 遍，太久了；请用短一些的文字。",
  ],
  [
    "attribution is not defined for a post-norm model: every block normalizes the whole residual stream again, so what a part wrote does not reach the logits as a term of a sum",
    "后归一化的模型没有这种归因：每一层都把整个残差流重新归一化，各部分写下的内容不再是最后那个和里的一项。",
  ],
  [
    "head roles are measured on repeated tokens, for which a context of {block_size} tokens is too short",
    "头的作用要在重复的词元上测量，而 {1} 个词元的上下文太短。",
  ],
  [
    "tokens can't repeat at distance {distance}: it must be from 2 to {most}, since two copies must fit the context",
    "词元不能以 {1} 为间隔重复：两倍的间隔要放得进上下文，所以间隔是 2 到 {2}。",
  ],
  ["there is no token {id}: there are 0 to {last}", "没有编号为 {1} 的词元：编号从 0 到 {2}。"],
  ["there is no layer {layer}: there are 0 to {last}", "没有第 {1} 层：层号从 0 到 {2}。"],
  ["there is no head {head}: there are 0 to {last}", "没有头 {1}：编号从 0 到 {2}。"],
  ["there is no position {position}: there are 0 to {last}", "没有位置 {1}：位置从 0 到 {2}。"],
  ["there is no token to look at", "没有可看的词元。"],
  ["the text has no end of a sentence, line or paragraph", "这段文字里没有句末、行末或段末。"],
  ["name the parts to switch off", "请指出要关掉哪些部分。"],
  [
    "there is no part {name}: write 3.1 for head 1 of layer 3, or mlp.3, attn.3, layer.3",
    "没有 {1} 这个部分：3.1 表示第 3 层的头 1，也可以写 mlp.3、attn.3、layer.3。",
  ],
  ["the forward pass did not reach {}", "计算没有经过 {1}。"],
  [
    "{tokens} tokens do not fit the model's context of {block_size}",
    "{1} 个词元放不进这个模型的上下文（{2} 个词元）。",
  ],
  ["say which layer", "请指出是哪一层。"],
  ["give a text, or ids", "请给出文字或词元编号。"],
  ["give a text or ids, not both", "文字和词元编号只能给一种。"],
  ["{field} has no effect here: leave it out", "{1} 在这里不起作用，请去掉。"],
  ["a logit is {}: the model's weights are broken", "有一个 logit 是 {1}：模型的权重已损坏。"],
  // Texts.
  [
    "This model's maximum context length is {context} tokens, but the prompt has {prompt}. Shorten it: nothing is cut silently.",
    "这个模型最多能读 {1} 个词元，而这段文字有 {2} 个。请缩短一些。",
  ],
  [
    "This model's maximum context length is {context} tokens, and the prompt has as many, which leaves no room for an answer. Shorten it: nothing is cut silently.",
    "这个模型最多能读 {1} 个词元，而这段文字正好有这么多，没有地方写回答了。请缩短一些。",
  ],
  ["this model has no tokenizer: give token ids", "这个模型没有分词器，请输入词元编号。"],
  [
    "character {} of the text is {character} (U+{}), which is not in the vocabulary, and there is no <unk> token to replace it",
    "文字的第 {1} 个字符 {2} 不在模型的词表里，词表里也没有代表未知字符的 <unk>。",
  ],
  [
    "byte {position} of the text is 0x{byte}, for which the vocabulary has no token",
    "文字的第 {1} 个字节是 0x{2}，词表里没有对应的词元。",
  ],
  [
    "id {id} at position {position} is outside the vocabulary of {vocab_size} tokens",
    "位置 {2} 的编号 {1} 超出了词表（共 {3} 个词元）。",
  ],
  [
    "the prompt has id {} at position {at}, outside of the vocabulary of {vocab_size} tokens",
    "位置 {2} 的编号 {1} 超出了词表（共 {3} 个词元）。",
  ],
  ["the prompt is empty: there must be a token to begin with", "提示是空的：至少要有一个词元。"],
  // The server as a whole.
  ["{limit} requests are waiting already; try again later", "已有 {1} 个请求在排队，请稍后再试。"],
  [
    "the engine of {model} has ended after an internal error",
    "模型 {1} 的引擎因内部错误而停止，请重新启动服务器。",
  ],
  [
    "the answer was ended because the client did not read it: others need the memory",
    "回答已中断，因为客户端没有读取它：内存要留给其他请求。",
  ],
  [
    "the answers that are being written leave no room for one of this size: try again later",
    "正在写的回答占满了内存，容不下这么大的一个，请稍后再试。",
  ],
  [
    "this asks for up to {size} numbers (texts × tokens × (1 + log-probabilities of each)); {MOST_OF_ONE_REQUEST} is the most in one request: ask for fewer texts, tokens or log-probabilities",
    "这个请求最多会得到 {1} 个数（文本数 × 词元数 ×（1 + 每个词元的对数概率数）），而一个请求最多 {2} 个：请减少文本、词元或对数概率的数量。",
  ],
  [
    "{MOST_WATCHERS} clients watch already, which is the limit: try again later",
    "已有 {1} 个客户端在观看，达到了上限，请稍后再试。",
  ],
  [
    "too many large bodies are being received: try again later",
    "正在接收的大请求太多，请稍后再试。",
  ],
  ["the body of the request did not arrive in time", "请求没有及时传完。"],
  [
    "host {host} is not allowed, because any page could make a name point here: use the server's address, or start it with this name as an allowed host or with a key",
    "不允许主机名 {1}，因为任何网页都能让一个名字指向这里：请用服务器的地址，或在启动时允许这个名字，或设置密钥。",
  ],
  [
    "origin {origin} is not allowed: start the server with this as an allowed origin",
    "不允许来源 {1}：请在启动服务器时允许它。",
  ],
  ['the key is missing or wrong: send it as "Authorization: Bearer KEY"', "密钥缺失或不对。"],
  ["the request body ended early", "请求没有传完就中断了。"],
  [
    "the body of the request came too slowly while others waited for room",
    "请求传得太慢，而其他请求在等待空间。",
  ],
  ["the model is being loaded", "模型正在加载。"],
  ["the server is being stopped", "服务器正在停止。"],
  ["there is no run {name} here", "这里没有训练记录 {1}。"],
  ["there is no model {asked} here; there is {}", "这里没有模型 {1}；有的是 {2}。"],
  ["there is no snapshot {name}", "没有快照 {1}。"],
  ["there is no picture {file} of {name}", "{2} 没有图片 {1}。"],
  ["this server has no folder of runs", "启动服务器时没有指定训练文件夹。"],
  ["{} is too long to be shown", "{1} 太长，无法显示。"],
  ["the body has more than {limit} bytes", "请求超过了 {1} 字节。"],
  [
    "after {position} tokens the model gives {value} for token {id} instead of a number: its weights are damaged",
    "在 {1} 个词元之后，模型给词元 {3} 的不是数而是 {2}：它的权重已损坏。",
  ],
  ["the model could not be run: {message}", "模型无法运行：{1}"],
  ["an answer could not be written: {error}", "回答无法写出：{1}"],
  [
    "this request broke something here; others go on",
    "这个请求让服务器内部出了错；其他请求不受影响。",
  ],
];

const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
/** A message with the places of its values, as a pattern; the server may say more after it. */
export function patternOf(english) {
  const middle = english
    .split(/\{\w*\}/)
    .map(escaped)
    .join("(.+?)");
  return new RegExp(`^${middle}${english.endsWith("}") ? "$" : "(?=[.;,:]? |[.;,:]?$)"}`, "s");
}
const patterns = CHINESE.map(([english, chinese]) => [patternOf(english), chinese]);

/** A message of the server in a language; one without a translation says that it is English. */
export function said(message, language) {
  if (language !== "zh") return message;
  // The most specific one: a message may begin like a shorter one.
  const found = patterns
    .map(([pattern, chinese]) => [pattern.exec(message), chinese])
    .filter(([match]) => match)
    .sort(([a], [b]) => b[0].length - a[0].length)[0];
  if (!found) return t("error.server", { message });
  const [match, chinese] = found;
  return chinese.replace(/\{(\d)\}/g, (_, n) => match[n] ?? "");
}
