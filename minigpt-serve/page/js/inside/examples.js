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

export function examples(model) {
  if (!model.tokenizer) return ['1 2 3 4 1 2 3'];
  if (model.separator) return QUESTIONS[lang()].map(question => question + model.separator);
  return PLAIN[lang()];
}

/** Pairs of texts that differ in one thing. */
export function pairs(model) {
  if (!model.tokenizer) return [['1 2 3 4', '1 2 5 4']];
  if (model.separator) return [['智利的首都是哪里？', '法国的首都是哪里？'], ['What is the capital of Chile?', 'What is the capital of France?']].map(pair => pair.map(text => text + model.separator));
  return [['The capital of France is', 'The capital of Italy is'], ['法国的首都是', '德国的首都是']];
}

/** Questions for the chat. */
export const questions = () => QUESTIONS[lang()];
