export default {
  title: "How does it speak?",
  body: [
    "At the end of the pass stands one number for every token of the vocabulary, its *logit*. " +
      "Softmax makes probabilities of them. But a probability is not yet a word. Somebody has to " +
      "choose.",
    "The simplest choice is the likeliest token, every time. That is *greedy* decoding: the " +
      "same prompt always gives the same text. For facts that is often best. For stories it " +
      "tends to become dull and to go round in circles.",
    "The other way is to *draw*: a token with 20 % comes up every fifth time. Then the text is " +
      "lively, but once in a while something absurd is drawn, because thousands of unlikely " +
      "tokens together are not so unlikely.",
    { formula: "temperature" },
    "*Temperature* changes how bold the draw is. The logits are divided by T before the " +
      "softmax. Below 1 the likeliest gets more, near 0 it gets all; above 1 the shares become " +
      "more even. The order never changes.",
    { figure: "temperature" },
    "Filters cut the long tail off. *Top-k* keeps the k likeliest. *Top-p* keeps the smallest " +
      "set that together reaches p: few tokens where the model is sure, many where it is not. " +
      "*Min-p* keeps what has at least that share of the likeliest one’s probability.",
    { figure: "next" },
    "They act one after the other: temperature, top-k, top-p, min-p. What is left is scaled up " +
      "to sum to 1, and one token is drawn.",
    "Then that token is put behind the text, and the whole model runs again for the next one. " +
      "Keys and values of earlier tokens are kept in a cache, so that each step costs one token’" +
      "s work only.",
    { figure: "four" },
    "Greedy looks one step ahead. A token that is a little less likely may lead to a much " +
      "likelier sentence. *Beam search* follows several beginnings at once and keeps the best " +
      "ones by the probability of the whole.",
    { figure: "beams" },
    (m) =>
      (m?.endless
        ? "Many models stop when they draw an end token; the loaded one has none, and goes on until it is told to stop."
        : `The model stops when it draws its end token, here ${(m?.ends ?? ["<sep>", "<|endoftext|>"]).map((name) => `\`${name}\``).join(" or ")}, or when it has been told to.`) +
      " It doesn’t know the truth, only what is likely to follow. When an answer is wrong but " +
      "sounds sure, look at the probabilities: often they were not so sure at all.",
  ],
  try: [
    "Set the temperature to 2 and draw 20. How many different tokens come?",
    "Find a top-p that keeps exactly three tokens here. Change the prompt: how many are kept now?",
    "In the beam figure, find the width at which the best sentence is found that greedy misses.",
  ],
  know: [
    "Logits become probabilities, and then somebody chooses.",
    "Temperature changes boldness; top-k, top-p and min-p cut the tail.",
    "The chosen token joins the text, and everything begins again.",
  ],
};
