export default {
  title: "What does a model read?",
  body: [
    "A language model is arithmetic, and arithmetic needs numbers. So before anything else a " +
      "text becomes a list of whole numbers. The pieces it is cut into are called *tokens*, and " +
      "each token has a number, its *id*.",
    "How large should a piece be? The simplest answer: one character, one token. The " +
      "vocabulary is then small and nothing can be misspelt by the cutting. But texts become " +
      "long, and a model pays for every token.",
    { figure: "bytes" },
    "Another answer is to cut even finer. A computer stores every text as *bytes*, numbers " +
      "from 0 to 255, in an encoding called UTF-8. A Latin letter takes one byte, a Chinese " +
      "character three, most emoji four. With 256 tokens every text in the world can be written. " +
      "It only gets very long.",
    "Byte-pair encoding (BPE) begins with those bytes and makes the vocabulary larger where it " +
      "pays: it looks for the pair of neighbours that occurs most often, gives that pair a new " +
      "id, replaces it everywhere, and does so again and again. Frequent words end up as one " +
      "token; rare ones stay in parts.",
    { figure: "bpe" },
    "GPT-2 did this 50,000 times on English web pages. A tokenizer trained on your own text " +
      "learns *your* words. That is why Chinese text costs many tokens with GPT-2’s vocabulary " +
      "and few with one that was trained on Chinese.",
    "Because BPE works on bytes, one token may hold half a character. That is no mistake: the " +
      "next token brings the other half. On these pages such tokens stand joined; choose one to " +
      "see its bytes.",
    { figure: "tokens" },
    "Some tokens are not text at all. `<sep>` between a question and its answer, or " +
      "`<|endoftext|>` at the end of a document, are signs that only the program writes. If you " +
      "type the same letters in a chat, they stay ordinary letters.",
    "An id has no meaning in itself. That 17 stands beside 18 says nothing about what they " +
      "mean. Giving ids a meaning is what the next chapter is about.",
    "One more thing follows from all this: a model never sees letters. Ask it how many times a " +
      "letter occurs in a word, and it has to have learnt that about the token, because it can’t " +
      "look.",
  ],
  try: [
    "Type your name above. How many tokens is it? Put a space in front of it and look again.",
    "Type the same sentence in English and in Chinese. Which costs more tokens in the loaded " +
      "model?",
    "In the BPE figure, type `banana banana` and merge step by step. Which pair goes first, " +
      "and why?",
  ],
  know: [
    "A text becomes tokens, and tokens become ids.",
    "Characters, bytes and BPE are three ways to cut; BPE learns from text which pieces are " +
      "worth a number.",
    "A token may be a word, a part of one, or a part of a single character.",
  ],
};
