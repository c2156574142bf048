// Texts to begin with, in the form that the loaded model knows.
import { lang } from '../i18n.js';

const QUESTIONS = {
  en: ['What is the capital of Chile?', 'What is the capital of France?', '智利的首都是哪里？'],
  zh: ['智利的首都是哪里？', '法国的首都是哪里？', 'What is the capital of Chile?'],
};
const PLAIN = {
  en: ['The capital of France is', 'Once upon a time, there was a', 'To be, or not to be, that is the'],
  zh: ['法国的首都是', '从前有一座山，山里有', 'Once upon a time, there was a'],
};

/** An answer that has begun: its end is worth guessing. */
const BEGUN = { en: ['What is the capital of Chile?', 'The capital of Chile is'], zh: ['智利的首都是哪里？', '智利'] };

export function examples(model) {
  if (!model.tokenizer) return ['1 2 3 4 1 2 3'];
  if (model.separator) return QUESTIONS[lang()].map(question => question + model.separator);
  return PLAIN[lang()];
}

/** The same for Inside, where there is more to see after a few words of an answer. */
export const longer = model => (model.tokenizer && model.separator ? [BEGUN[lang()].join(model.separator), ...examples(model).filter((_, i) => i !== 1)] : examples(model));

/** Pairs of texts that differ in one thing. Whether they have equally many tokens depends on the model's tokenizer. */
export function pairs(model) {
  if (!model.tokenizer) return [['1 2 3 4', '1 2 5 4']];
  if (model.separator) return QUESTION_PAIRS.map(pair => pair.map(([question, answer]) => question + model.separator + answer));
  return [['The capital of France is', 'The capital of Italy is'], ['法国的首都是', '德国的首都是'], ['To be, or not to be, that is the', 'To see, or not to see, that is the'], ['从前有一座山，山里有', '从前有一条河，河里有']];
}

/** With an answer that has begun where answers begin alike. */
const QUESTION_PAIRS = [
  ...[['Chile', 'Peru'], ['France', 'Italy']].map(pair => pair.map(country => [`What is the capital of ${country}?`, 'The capital of'])),
  ['Chile', 'Peru'].map(country => [`What is the capital of ${country}?`, `The capital of ${country} is`]),
  ...[['智利', '秘鲁'], ['法国', '日本'], ['意大利', '西班牙']].map(pair => pair.map(country => [`${country}的首都是哪里？`, ''])),
  ['智利', '秘鲁'].map(country => [`${country}的首都是哪里？`, country]),
];

/** Questions for the chat. */
export const questions = () => QUESTIONS[lang()];
