// A text as its tokens, coloured by surprisal; tokens that are parts of one character stand joined.
// One is selected.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { joined, nameOf } from "../tokens.js";
import { percent, bits } from "../numbers.js";
import { tip } from "./tip.js";
import { surpriseScale, on } from "./paint.js";
import { byFinger } from "../touch.js";

/** What there is to say of a token. */
export function about(token, index) {
  const rows = [
    [t("token.position"), String(index)],
    [t("token.id"), token.id === undefined ? null : String(token.id)],
    [t("token.bytes"), token.bytes ? token.bytes.match(/../g).join(" ") : null],
    [t("token.probability"), token.probability == null ? null : percent(token.probability)],
    [
      t("token.surprisal"),
      token.surprisal == null ? null : `${bits(token.surprisal)} ${t("unit.bits")}`,
    ],
    [t("token.rank"), token.rank == null ? null : String(token.rank)],
  ];
  return [
    h("strong", { class: "mono", dir: "auto" }, nameOf(token)),
    h(
      "dl",
      rows
        .filter((row) => row[1] !== null)
        .map(([name, value]) => [h("dt", name), h("dd", { class: "num" }, value)]),
    ),
    index === 0 && token.surprisal == null && h("p", { class: "small" }, t("token.first")),
  ];
}

/** `tokens`: `{ id, token, bytes, surprisal, … }`. Calls `onselect(index)`. Arrow keys walk. */
export function strip({ tokens, selected, onselect, onpoint, label, plain = false }) {
  const scale = surpriseScale();
  const buttons = [];
  const groups = joined(tokens).map(({ from, to, text }) => {
    const cells = tokens.slice(from, to).map((token, i) => {
      const index = from + i,
        shown = to - from === 1 ? text : i === 0 ? text : "";
      // A part of a character is named with the character that it belongs to.
      const name = (to - from > 1 ? `${text}, ` : "") + nameOf(token);
      const surprisal =
        token.surprisal == null ? "" : `, ${bits(token.surprisal)} ${t("unit.bits")}`;
      const button = h(
        "button",
        {
          type: "button",
          class: shown ? "token mono" : "token mono rest",
          dir: "auto",
          tabindex: index === (selected ?? 0) ? 0 : -1,
          "aria-pressed": String(index === selected),
          "data-index": index,
          "aria-label": `${index}: ${name}${surprisal}`,
          onclick: () => onselect?.(index),
          style: plain || token.surprisal == null ? {} : on(scale(token.surprisal)),
        },
        shown,
      );
      if (onpoint) {
        button.addEventListener("pointerenter", () => onpoint(index));
        button.addEventListener("focus", () => onpoint(index));
        button.addEventListener("pointerleave", (event) => {
          if (!byFinger(event)) onpoint(null);
        });
      }
      buttons[index] = button;
      return tip(button, () => about(token, index));
    });
    return h("span", { class: to - from > 1 ? "group" : "single" }, cells);
  });
  const element = h(
    "div",
    { class: "strip", role: "group", "aria-label": label ?? t("strip.label") },
    groups,
  );
  element.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e9, End: 1e9 }[event.key];
    if (!step) return;
    const now = Number(document.activeElement.dataset.index ?? selected ?? 0);
    const next = Math.max(0, Math.min(tokens.length - 1, now + step));
    event.preventDefault();
    buttons.forEach((button, i) => {
      button.tabIndex = i === next ? 0 : -1;
    });
    buttons[next].focus();
    onselect?.(next, true);
  });
  /** Scrolls the strip, not the page, so that a token can be seen. */
  const reveal = (index) => {
    const cell = buttons[index]?.getBoundingClientRect(),
      r = element.getBoundingClientRect();
    if (cell && r.height && (cell.top < r.top || cell.bottom > r.bottom))
      element.scrollTop += cell.top - r.top - (r.height - cell.height) / 2;
  };
  if (selected) requestAnimationFrame(() => reveal(selected));
  element.select = (index) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    reveal(index);
  };
  element.cell = (index) => buttons[index];
  element.mark = (weights) =>
    buttons.forEach((button, i) =>
      button.style.setProperty("--weight", weights ? Math.sqrt(weights[i] ?? 0) : 0),
    );
  return element;
}
