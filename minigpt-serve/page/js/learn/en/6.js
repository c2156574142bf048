export default {
  title: "How does it learn?",
  body: [
    "At first all weights are random, and so is what the model says. Training changes them, a " +
      "little at a time, by one simple game: cover the next token, let the model guess, and see " +
      "how sure it was of the right one.",
    { formula: "loss" },
    "The *loss* is −log of the probability it gave to the token that came. Sure and right: " +
      "near 0. A thousand tokens all equally likely: log 1000 ≈ 6.9. Sure and wrong: very large. " +
      "Guessing is allowed; being sure without reason is punished.",
    { figure: "loss" },
    "A text of a thousand tokens is a thousand such questions at once, thanks to the mask: " +
      "every position predicts its next token without having seen it. That is why one pass over " +
      "a text teaches so much.",
    "Now the trick that everything hangs on. For every weight we can compute in which " +
      "direction, and how strongly, the loss would change if the weight did: its *gradient*. The " +
      "chain rule carries it from the loss back through every step that we have seen. This costs " +
      "about twice as much as going forward.",
    { formula: "step" },
    (m) =>
      "Then every weight takes a small step downhill. The size of the step is the learning rate η. Too small, and it takes for ever; too large, and the loss jumps about. " +
      ({
        adamw:
          "The run of the loaded model used AdamW, which gives every weight a step of its own, " +
          "by how large and how steady its gradients were.",
        muon:
          "The run of the loaded model used Muon for the tables inside the blocks: it changes a " +
          "table as a whole, equally far in all directions. The other weights had AdamW, which " +
          "gives every weight a step of its own, by how large and how steady its gradients were.",
      }[m?.optimizer] ??
        "AdamW, a widely used refinement, gives every weight a step of its own, by how large and how steady its gradients were."),
    { figure: "descent" },
    "If the server knows a training run, its record stands above. Most begin alike: first the " +
      "loss falls quickly, while the model learns which tokens are frequent. Then it learns " +
      "which follow which. The rest is slow.",
    "And here is the smallest language model there is, trained by your browser while you " +
      "watch: a table that says which character follows which. Change the learning rate and let " +
      "it learn anew.",
    { figure: "live" },
    "A model can also learn its examples by heart. So a part of the data is held back, and the " +
      "loss there, the *validation loss*, tells what was understood. When it rises while the " +
      "training loss falls, it is time to stop.",
    "How good can it get? Over many sizes one finds a surprisingly simple law. The loss falls " +
      "as a power of the number of parameters N and of tokens D, down to a rest E that no model " +
      "can guess, since text is not predictable.",
    { formula: "scaling" },
    { figure: "scaling" },
    "So a budget of computation has a best split: a larger model on fewer tokens, or a smaller " +
      "one on more. That is how one plans a large run from small ones: `minigpt scaling`.",
  ],
  try: [
    "Give the right token 1 % and read the loss; then 50 %. How much does each doubling gain?",
    "Train the small model with a learning rate ten times larger.",
    "In the scaling figure keep N fixed and raise D. Where does it stop paying?",
  ],
  know: [
    "The loss is how surprised the model was by what came next.",
    "The gradient says how to change every weight; a step follows it.",
    "More parameters and more data lower the loss, by a law that can be measured.",
  ],
};
