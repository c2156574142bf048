export default {
  title: "What happens to each word alone?",
  body: [
    "Attention moves information between tokens. Then every token thinks for itself: its " +
      "vector goes through a small network, the *MLP*, the same one for every position.",
    (m) =>
      "Before that, the numbers are brought to a common size" +
      (m?.post ? " (in the loaded model, which is post-norm, after it)" : "") +
      ". After many additions some vectors are long and some short, and a network that meets " +
      "0.1 one moment and 200 the next learns badly. *Layer norm* subtracts the mean and " +
      "divides by the standard deviation.",
    { formula: "norm" },
    (m) =>
      "Here are six numbers of very different size. After the norm their mean is 0 and their deviation 1; which was larger than which is kept. Then each is multiplied by a learned *g*" +
      (m?.normBias === false
        ? ". (Many models then add a learned *b*; the loaded one doesn’t.)"
        : " and moved by a learned *b*."),
    { figure: "norm" },
    "The ε under the root is tiny. It only keeps the division safe when all numbers are the same.",
    (m) =>
      `The MLP widens the vector, usually four times: ${m ? `in the loaded model ${m.width} numbers become ${m.inner}` : "96 numbers become 384"}. Each of them is a dot product with one learned pattern, so each asks one question: “is this in the vector?”`,
    { formula: "mlp" },
    (m) =>
      "Then comes the step without which all of this would be in vain: a bend. Two tables one after the other are only one table; a bend between them lets the network tell cases apart. *ReLU* cuts everything below 0. *GELU* does nearly the same, with a soft corner." +
      (m ? ` The loaded model uses ${m.relu ? "ReLU" : "GELU"}.` : ""),
    { figure: "gelu" },
    "GELU multiplies a number by the chance that a draw from the bell curve is below it: large " +
      "numbers pass, very negative ones vanish, around 0 a little of both.",
    { formula: "gelu" },
    "Finally a second table narrows the answers to the old width, and the result is *added* to " +
      "the stream. So the first table holds questions, the second what to add if the answer is " +
      "yes. Much of what a model knows, such as which capital belongs to which country, is kept " +
      "in these pairs.",
    { figure: "neurons" },
    "In GPT-2 the MLPs hold about 46 % of all weights, attention 23 %, the embeddings 31 %. " +
      "Thinking alone costs more than looking around.",
  ],
  try: [
    "Make all six numbers the same. What does the norm give, and what would it give without ε?",
    "Multiply one number by ten. Which outputs move?",
    "Slide the input of GELU from −3 to 3. Where is it below 0?",
  ],
  know: [
    "Layer norm brings vectors to mean 0 and deviation 1.",
    "The MLP asks many questions of one vector and adds what follows from the answers.",
    "The bend between its two tables is what makes it more than one table.",
  ],
};
