// What changes without it? Heads and MLPs switched off; probabilities, surprisals and the next
// tokens before and after.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf, visible } from "../tokens.js";
import { number, percent, signed } from "../numbers.js";
import { bars } from "../parts/bars.js";
import { strip } from "../parts/strip.js";
import { empty } from "../parts/message.js";
import { untilEnd } from "../model.js";

/** The parts that an address switches off, in order. */
export const partsOff = (params) =>
  params.off
    ? params.off.split(",").filter((part) => /^(\d+\.\d+|(mlp|attn|layer)\.\d+)$/.test(part))
    : [];

export default async function ablation(chosen) {
  const { model, reading, params, change, signal } = chosen,
    { n_layer, n_head } = model.config;
  const off = new Set(
    partsOff(params).filter((part) => {
      const [a, b] = part.split(".");
      return /\d/.test(a) ? a < n_layer && b < n_head : b < n_layer;
    }),
  );
  const mean = params.replace === "mean";
  const put = (parts) => change({ off: parts.length ? parts.join(",") : null }, { replace: true });
  const toggle = (part) => {
    const next = new Set(off);
    if (!next.delete(part)) next.add(part);
    put([...next]);
  };
  const button = (part, label, whole) =>
    h(
      "button",
      {
        type: "button",
        class: "switch",
        disabled: off.has(whole),
        "aria-pressed": String(!off.has(part)),
        "aria-label": t(off.has(part) ? "ablation.is_off" : "ablation.is_on", { part: label }),
        onclick: () => toggle(part),
      },
      label,
    );
  const board = h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "board" },
      h(
        "tbody",
        Array.from({ length: n_layer }, (_, l) =>
          h(
            "tr",
            h("th", { scope: "row" }, button(`layer.${l}`, t("pass.block", { n: l }))),
            h(
              "td",
              h(
                "span",
                { class: "switches" },
                Array.from({ length: n_head }, (_, x) =>
                  button(`${l}.${x}`, `${l}.${x}`, `layer.${l}`),
                ),
              ),
            ),
            h("td", button(`mlp.${l}`, "MLP", `layer.${l}`)),
          ),
        ),
      ),
    ),
  );
  const controls = h(
    "div",
    { class: "row" },
    h(
      "label",
      { class: "row" },
      t("ablation.replace"),
      h(
        "select",
        {
          onchange: (event) =>
            change({ replace: event.target.value === "zero" ? null : "mean" }, { replace: true }),
        },
        h("option", { value: "zero", selected: !mean }, t("ablation.zero")),
        h("option", { value: "mean", selected: mean }, t("ablation.mean")),
      ),
    ),
    off.size > 0 && h("button", { type: "button", onclick: () => put([]) }, t("ablation.all_on")),
  );
  const top = [h("p", { class: "prose quiet" }, t("ablation.lead")), board, controls];
  if (!off.size) return [...top, empty(t("ablation.none"))];
  const report = await inspect(
    "ablate",
    { model: model.id, ids: reading.ids, off: [...off], mean, top: 8, continuation: 10 },
    { signal },
  );
  return [...top, compare(report, reading, model, [...off].map(nameOfPart).join(", "))];
}

/** `layer.0`, `mlp.0`, `0.1` in words. */
function nameOfPart(part) {
  const [kind, n] = part.split(".");
  return kind === "layer"
    ? t("pass.block", { n })
    : kind === "mlp"
      ? t("part.mlp", { layer: n })
      : kind === "attn"
        ? t("part.attn", { layer: n })
        : t("part.head", { layer: kind, head: n });
}

export function compare({ before, after }, reading, model, without) {
  const lines = [[t("ablation.loss"), before.loss, after.loss]].filter(([, a]) => a !== null);
  const side = (title, outcome, kind) =>
    h(
      "section",
      { class: "panel" },
      h("h3", title),
      h(
        "p",
        { class: "num" },
        lines
          .map(
            ([name, a, b]) =>
              `${name} ${number(outcome === before ? a : b)}${outcome === after ? ` (${signed(b - a, 3)})` : ""}`,
          )
          .join(" · "),
      ),
      bars({
        most: 1,
        label: title,
        rows: outcome.top.map((token) => ({
          name: nameOf(token),
          value: token.probability,
          text: percent(token.probability),
          kind,
        })),
      }),
      h("p", { class: "small quiet" }, t("ablation.goes_on")),
      h(
        "p",
        { class: "mono goes-on", dir: "auto" },
        visible(untilEnd(outcome.continuation_text ?? outcome.continuation.join(" "), model)),
      ),
      h("p", { class: "small quiet" }, t("legend.surprisal")),
      strip({ tokens: outcome.tokens.map((token, i) => ({ ...reading.tokens[i], ...token })) }),
    );
  return h(
    "div",
    { class: "two" },
    side(t("ablation.before"), before, ""),
    side(
      without ? t("ablation.without", { parts: without }) : t("ablation.after"),
      after,
      "orange",
    ),
  );
}
