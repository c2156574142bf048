export default {
  title: "How does it know which word, and where?",
  body: [
    (m) =>
      `An id is only a name. What a model computes with is a *vector*: a row of numbers, ${m ? `${m.width} of them in the loaded model` : "96 of them in the demo’s model"}, 768 in GPT-2. Every id has its own row in a large table, the embedding table ` +
      "`wte`. Looking up a word is picking a row.",
    "Nobody writes that table. It begins with random numbers, and training moves them. Tokens " +
      "that are used alike end up with similar rows, because a row that helps to predict what " +
      "follows one of them helps for the other.",
    { formula: "embed" },
    "Think of each number as an answer to a question that the model has invented. One might be " +
      "close to “is this a name of a country?”, most mean nothing that we have a word for. " +
      "Meaning lies in the directions, not in single numbers.",
    "But a text is more than a bag of words. “Dog bites man” and “man bites dog” have the same " +
      "tokens. The next step of the model, attention, by itself treats all earlier tokens alike. " +
      "So order is put into the vectors.",
    (m) =>
      "The usual remedy is plain: every *position* has a vector too, and it is added. Position 0 has one row, position 1 another. After the addition, the same word at two places is two different vectors." +
      (m
        ? ({
            rope: " The loaded model does it in another way: it turns queries and keys.",
            none: " The loaded model leaves this out: only the mask tells it what came earlier.",
          }[m.position] ?? "")
        : ""),
    { figure: "embed" },
    "GPT-2 learns its position rows, like the words’. The first Transformer computed them " +
      "instead, from sines and cosines of different wavelengths, like the hands of many clocks. " +
      "Together they tell any two moments apart, also for positions that training never saw.",
    { figure: "positions" },
    "Newer models turn the queries and keys by an angle that grows with the position (rotary " +
      "positions). MiniGPT can do all three, or leave positions out.",
    "Does the position matter for a given model? Swap two tokens and see whether it expects " +
      "something else. Without positions, one layer of attention can’t notice that earlier " +
      "tokens changed places: it mixes the same set. Two layers with a causal mask can, because " +
      "in the first one each token has already seen a different past.",
    { figure: "swap" },
    "What results is the beginning of the *residual stream*: one vector per token that runs " +
      "through the whole model. Every part reads it and adds to it. The last chapter’s " +
      "probabilities are read off its end.",
  ],
  try: [
    "In the first figure choose the same token at two positions: the token’s row stays; does " +
      "anything else change?",
    "Make the sinusoidal figure wider. Which columns turn slowly, and what can they tell that " +
      "the fast ones can’t?",
    "Swap the first two tokens of the text, then two in the middle. Which swap surprises the " +
      "model more?",
  ],
  know: [
    "An id picks a row of numbers; training decides what is in it.",
    "Order is usually added as a vector of the position.",
    "The result is what the rest of the model works on.",
  ],
};
