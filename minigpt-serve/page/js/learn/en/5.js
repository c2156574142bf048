export default {
  title: "Why is it deep?",
  body: [
    (m) =>
      `A *block* is attention, then an MLP. A GPT is the same block again and again, each with its own weights: ${m ? `${m.layers} in the loaded model` : "three in the demo"}, twelve in GPT-2, 96 in GPT-3. Why so many?`,
    { formula: "block" },
    (m) =>
      m?.post
        ? "Look at the plus signs: what a part has to say is *added* to the stream, and then, since the loaded model is post-norm, the sum is normalised. The adding is the residual connection. It is why depth does little harm: a part that has nothing to say adds almost nothing."
        : "Look at the arrows: nothing is replaced, everything is *added*. The stream that enters a block leaves it again, with something more. This is the residual connection. It is why depth does no harm: a block that has nothing to say adds almost nothing.",
    (m) =>
      "It also helps learning. A gradient flows back through a sum unchanged, so the first block hears what went wrong at the end as clearly as the last." +
      (m?.post
        ? " (Post-norm gives up some of that: on its way back the gradient passes every norm.)"
        : ""),
    (m) =>
      m?.post
        ? "Where everything is only added, one can look at a logit in parts: what the embedding, every head and every MLP wrote. In a post-norm model that is not so, and the figure says why."
        : "Because everything is a sum, we can look at it in parts. Below is one logit, split into what the embedding, every head and every MLP wrote. The bars add up to the model’s own number.",
    { figure: "attribution" },
    "What is deep good for? Work that needs several steps. The first layers find out what " +
      "stands where (“this is the name of a country, before it stood ‘the capital of’”), later " +
      "ones use that (“so a city is wanted, this one”). An induction head, for example, needs " +
      "another head one layer before it.",
    (m) =>
      `One can watch the thought form. Take the stream after some block, and pretend that the model ended there: ${m?.post ? "multiply it by the output table" : "send it through the final norm"} and read off the likeliest token. That is the *logit lens*.`,
    { figure: "lens" },
    "In the first rows the guess is often just a copy of the token, or nonsense. Somewhere the " +
      "answer appears, and from then on the other layers make it surer. The framed cell is where " +
      "the final answer takes the lead for good.",
    "A lens shows what *could* be read off, not what the model relies on. For that one has to " +
      "intervene: switch something off and see what changes.",
    { figure: "without" },
    "If the answer survives without a block, that block was not needed for it, or others did " +
      "the same. Often there is more than one way.",
    (m) =>
      "The older arrangement, *post-norm*, normalises after each addition. It works for few layers. With many, pre-norm is far easier to train, since the stream itself stays untouched." +
      (m ? ` The loaded model, drawn above, is ${m.post ? "post-norm" : "pre-norm"}.` : ""),
  ],
  try: [
    "Choose another token in the lens. Which tokens are settled early, which late?",
    "Switch off the first block, then the last. Which one does the model miss more?",
    (m) =>
      m?.post
        ? "Switch off one block after the other. Is there one whose absence changes nothing?"
        : "In the attribution, find the single part that wrote most of the answer. Then open it in Inside.",
  ],
  know: [
    "Every block reads the stream and adds to it.",
    "Layers make several steps of work possible, one after the other.",
    (m) =>
      m?.post
        ? "One can read the stream halfway, and switch parts off; a post-norm model’s logits can’t be split."
        : "Because the stream is a sum, one can read it halfway, split it, and switch parts off.",
  ],
};
