export default {
  title: "How does a word look at others?",
  body: [
    "So far every token knows only itself. To understand “it” in a sentence, the model must " +
      "bring something over from an earlier place. That is the work of *attention*.",
    "Imagine a library. You come with a wish (the *query*). Every book has a label on its back " +
      "(the *key*) and something written inside (the *value*). You compare your wish with all " +
      "labels, and take from each book as much as its label fits.",
    { formula: "qkv" },
    "In the model all three are made from the token’s own vector by three tables of weights. " +
      "Each token asks with its query, is found by its key, and hands over its value.",
    "How well do a query and a key fit? Multiply them number by number and add up: the *dot " +
      "product*. It is large where both point the same way. Here is a small example with its " +
      "numbers: a guest, three dishes.",
    { figure: "restaurant" },
    "Two details matter. The scores are divided by √d, the root of the vectors’ width. Without " +
      "it, wide vectors give large scores, and the softmax would put everything on one key. And " +
      "*softmax* turns any scores into shares that are positive and sum to 1.",
    { formula: "softmax" },
    "A model that writes may not look ahead: the word to be guessed would be in plain sight. " +
      "So scores of later tokens are set to −∞ before the softmax, and their share is exactly 0. " +
      "This is the *causal mask*. In the figure above it is the sold-out dish.",
    "Now for many tokens at once: one row a query, one column a key. The five steps below are " +
      "all there is. Change a number, and follow it through.",
    { figure: "head" },
    { formula: "attention" },
    (m) =>
      `One such search is a *head*. A layer has several${m ? ` (${m.heads} in the loaded model)` : ""}, each with its own small tables, so that one may look at the previous token while another looks for the last time the same word was there. Their results are put side by side and mixed by one more table.`,
    { figure: "modelHead" },
    "What a head does can be measured. On random tokens that repeat, some heads always look " +
      "one back (*previous token*), some at what followed the last time (*induction*). A role is " +
      "only named where a head beats an untrained model clearly; most heads have none.",
  ],
  try: [
    "In the restaurant, make the guest want only the second thing. Which dish wins now?",
    "Sell out the best dish. Where does its share go?",
    "In the model’s head, choose the last token and go through the layers: in which does it " +
      "look at the word that matters?",
  ],
  know: [
    "Query and key decide how much, value decides what.",
    "Scores are scaled, masked, and turned into shares that sum to 1.",
    "Many heads search for different things at the same time.",
  ],
};
