// What the server says about a model, and what follows from it. Every statement about the loaded model
// comes from here.

/** How answers are chosen where nobody says it: the server's settings for this model. */
export const defaultsOf = (model) => ({
  temperature: 1,
  top_k: 0,
  top_p: 1,
  min_p: 0,
  ...model?.defaults,
});

/** Whether its blocks normalise the stream itself, after adding to it. Such a model has no final norm. */
export const isPost = (model) => model?.config?.norm_position === "post";

/** Whether it goes on with a text, rather than to answer. */
export const goesOn = (model) => model?.kind === "plain";

/** Whether training counted the loss of answers alone, as its run says. */
export const onlyAnswers = (model) => model?.origin?.loss_on === "answer";

const alphabets = new WeakMap();

/**
 * The characters of a text that a model's vocabulary lacks, each once; they are left out of what it
 * reads. A vocabulary of bytes lacks none. Names of special tokens in the text are no characters.
 */
export function missing(model, text) {
  if (!model.characters) return [];
  if (!alphabets.has(model)) alphabets.set(model, new Set(model.characters));
  const plain = [model.separator, ...(model.ends ?? [])]
    .filter(Boolean)
    .reduce((rest, name) => rest.replaceAll(name, ""), text);
  return [...new Set(plain)].filter((c) => !alphabets.get(model).has(c));
}

/** Whether a model can read all of a text. */
export const knows = (model, text) => missing(model, text).length === 0;

/** What the chapters of Learn say about the loaded model; nothing if there is none. */
export function factsOf(model) {
  if (!model) return null;
  const { config } = model;
  return {
    width: config.n_embd,
    inner: model.inner,
    layers: config.n_layer,
    heads: config.n_head,
    post: isPost(model),
    normBias: config.norm_bias,
    relu: config.activation_function === "relu",
    position: config.position_embedding,
    optimizer: model.origin?.optimizer ?? null,
    ends: model.ends ?? [],
    // What has no end token goes on until it is told to stop.
    endless: model.ends?.length === 0,
  };
}

/** Whether an answer that was cut ended with the context, before it was as long as was asked for. */
export const cutByContext = ({ usage, most }) => (usage?.completion_tokens ?? Infinity) < most;

/** A text up to the first token that ends it, as a model that is asked would stop there. */
export function untilEnd(text, model) {
  const places = (model?.ends ?? [])
    .filter((name) => text.includes(name))
    .map((name) => text.indexOf(name) + name.length);
  return text.slice(0, Math.min(text.length, ...places));
}
