// A question and its answer: tokens that tell their probability, and what can be done with them.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { link } from "../router.js";
import { number, percent, bits } from "../numbers.js";
import { nameOf, joined } from "../tokens.js";
import { tip } from "../parts/tip.js";
import { failure, lacking } from "../parts/message.js";
import { cutByContext } from "../model.js";

export function turnView(turn, { model, last, busy, retry, edit }) {
  const text = h("div", { class: "answer", dir: "auto" }),
    margin = h("div", { class: "margin", "aria-hidden": "true" }),
    state = h("span", { class: "small quiet num" });
  const element = h(
    "article",
    { class: "turn" },
    question(),
    lacking(turn.unknown, model),
    h(
      "div",
      { class: "answer-row" },
      margin,
      h("div", text, h("div", { class: "row small tools" }, state, tools())),
    ),
  );
  function question() {
    const shown = h(
      "div",
      { class: "question" },
      h("p", { dir: "auto" }, turn.question),
      h(
        "button",
        {
          type: "button",
          class: "plain small",
          disabled: busy,
          onclick: () => {
            const box = h(
              "textarea",
              { rows: 2, dir: "auto", "aria-label": t("chat.edit") },
              turn.question,
            );
            fill(
              shown,
              h(
                "form",
                {
                  class: "wide",
                  onsubmit: (event) => {
                    event.preventDefault();
                    if (box.value.trim()) edit(box.value);
                  },
                },
                box,
                h("button", { class: "primary" }, t("chat.send")),
              ),
            );
            box.focus();
          },
        },
        t("chat.edit"),
      ),
    );
    return shown;
  }
  function tools() {
    if (busy && last) return null;
    const full = turn.prompt ?? turn.question + (model.separator ?? "");
    return [
      h(
        "button",
        {
          type: "button",
          class: "plain",
          onclick: (event) => {
            const { target } = event;
            navigator.clipboard?.writeText(turn.text).then(
              () => {
                target.textContent = t("chat.copied");
              },
              () => {},
            );
          },
        },
        t("chat.copy"),
      ),
      h(
        "button",
        { type: "button", class: "plain", disabled: busy, onclick: retry },
        t("chat.retry"),
      ),
      h(
        "a",
        { href: link("inside", { model: model.id, text: full + turn.text }) },
        t("chat.inside"),
      ),
    ];
  }
  // Only the end of a growing answer is drawn anew: its last tokens may still be joined by those to
  // come.
  const done = h("span"),
    growing = h("span"),
    caret = h("span", { class: "caret", "aria-hidden": "true" }),
    wrong = h("div");
  let settled = 0;
  fill(text, done, growing, caret, wrong);
  const drawTokens = () => {
    const writing = turn.state === "writing";
    const rest = joined(turn.tokens.slice(settled)).map((group) => ({
      ...group,
      from: group.from + settled,
      to: group.to + settled,
    }));
    while (rest.length && (!writing || rest[0].to <= turn.tokens.length - 8)) {
      const group = rest.shift();
      done.append(span(turn, group));
      settled = group.to;
    }
    fill(growing, turn.tokens.length ? rest.map((group) => span(turn, group)) : turn.text);
    caret.hidden = !writing;
    while (margin.childElementCount < turn.tokens.length && margin.childElementCount < 400)
      margin.append(
        h("i", {
          style: {
            width: `${Math.min(100, (100 * turn.tokens[margin.childElementCount].surprisal) / 12)}%`,
          },
        }),
      );
  };
  element.refresh = () => {
    drawTokens();
    const parts = [
      turn.state === "stopped" && t("chat.stopped"),
      turn.finish === "length" &&
        (cutByContext(turn) ? t("chat.full", { context: model.context }) : t("chat.length")),
      turn.usage &&
        t("chat.usage", {
          tokens: turn.usage.completion_tokens,
          seconds: number(turn.seconds ?? 0, 2),
        }),
    ];
    fill(state, parts.filter(Boolean).join(" · "));
    fill(wrong, turn.error ? failure(turn.error) : null);
  };
  element.refresh();
  return element;
}

function span(turn, { from, to, text }) {
  const parts = turn.tokens.slice(from, to),
    token = parts[0];
  const raw =
    parts.length === 1 && token.token === "\n"
      ? "\n"
      : text.replaceAll("␣", " ").replaceAll("⏎", "\n");
  const probability = parts.reduce((p, part) => p * part.probability, 1);
  const element = h("span", { class: "said", tabindex: 0 }, raw);
  return tip(element, () => [
    h("strong", { class: "mono", dir: "auto" }, text),
    ` ${percent(probability)} · ${bits(parts.reduce((s, part) => s + part.surprisal, 0))} ${t("unit.bits")}`,
    token.top.length
      ? h(
          "dl",
          token.top.map((other) => [
            h("dt", { class: "mono", dir: "auto" }, nameOf(other)),
            h("dd", { class: "num" }, percent(other.probability)),
          ]),
        )
      : null,
  ]);
}
