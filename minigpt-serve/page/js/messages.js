// What the server says in English, in Chinese where a reader of Chinese is likely to meet it.

const CHINESE = [
  [/^patching needs two texts of as many tokens; these have (\d+) and (\d+)/, '两段文字的词元数必须相同；现在分别是 $1 个和 $2 个。'],
  [/^the two texts are the same/, '两段文字完全一样，没有可比较的地方。'],
  [/^both texts lead to the token (\d+) (.*?): name another/, '两段文字都引出同一个词元 $2，请换一段文字。'],
  [/^the difference of the two logits is the same/, '两个 logit 之差在两段文字后相同，谈不上恢复多少。'],
  [/^attribution is not defined for a post-norm model/, '后归一化的模型没有这种归因：每一层都把整个残差流重新归一化，各部分写下的内容不再是最后那个和里的一项。'],
  [/^heads are judged on repeated tokens, for which a context of (\d+) tokens is too short/, '头的作用要在重复的词元上测量，而 $1 个词元的上下文太短。'],
  [/^This model's maximum context length is (\d+) tokens, but the prompt has (\d+)/, '这个模型最多能读 $1 个词元，而这段文字有 $2 个。请缩短一些。'],
  [/^this model has no tokenizer/, '这个模型没有分词器，请输入词元编号。'],
  [/^there is no token (\d+): there are 0 to (\d+)/, '没有编号为 $1 的词元：编号从 0 到 $2。'],
  [/^patching (\d+) tokens would take/, '$1 个词元太长了，比较起来要很久；请用短一些的文字。'],
  [/requests are waiting already/, '排队的请求太多，请稍后再试。'],
  [/^there is no run /, '没有这个训练记录。'],
  [/^there is no model /, '没有这个模型。'],
  [/^there is no snapshot /, '没有这个快照。'],
];

/** A message of the server in a language; as it is where it is not known. */
export function said(message, language) {
  if (language !== 'zh') return message;
  const found = CHINESE.find(([pattern]) => pattern.test(message));
  return found ? message.match(found[0]).reduce((text, part, i) => text.replaceAll(`$${i}`, part ?? ''), found[1]) : message;
}
