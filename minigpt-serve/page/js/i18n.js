// Two languages, each written: `t(key, {name})` gives the text of the chosen one.
import en from "./en.js";
import zh from "./zh.js";
import { touch } from "./touch.js";

const TEXTS = { en, zh };
let language = "en";

export const languages = Object.keys(TEXTS);
export const lang = () => language;

/** The language that was chosen before, or that of the browser. */
export function preferred(stored, wishes) {
  if (languages.includes(stored)) return stored;
  for (const wish of wishes) {
    const short = wish.toLowerCase().split("-")[0];
    if (languages.includes(short)) return short;
  }
  return "en";
}

/** What stands between two sentences. */
export const gap = () => (language === "zh" ? "" : " ");

export function use(chosen) {
  language = chosen;
  if (typeof document !== "undefined")
    document.documentElement.lang = chosen === "zh" ? "zh-CN" : "en";
}

/** A text with its values. Where there is a text for fingers, `key.touch`, a device without a mouse gets that. */
export function t(key, values = {}) {
  const texts = TEXTS[language];
  const text = (touch() ? texts[`${key}.touch`] : undefined) ?? texts[key] ?? TEXTS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
