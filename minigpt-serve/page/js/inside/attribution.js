// Who wrote this token? The share of the embedding, every head and every MLP in a logit, as a
// waterfall that ends at the logit.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { number, signed } from "../numbers.js";
import { tip } from "../parts/tip.js";
import { empty } from "../parts/message.js";

/** What a component is called. */
export function componentName({ component, layer, head }) {
  if (head !== null && head !== undefined) return t("part.head", { layer, head });
  if (component.startsWith("mlp")) return t("part.mlp", { layer });
  if (component.startsWith("attn")) return t("part.attn_bias", { layer });
  return t(`part.${component}`);
}

/** Whether a model's logits are a sum of what its parts wrote; a post-norm model's are not. */
export const isSum = (model) => model.config.norm_position !== "post";
export const notASum = () => empty(t("attribution.post"));

export default async function attribution(chosen) {
  if (!isSum(chosen.model)) return notASum();
  const { model, reading, at, params, change, signal } = chosen;
  const token = /^\d+$/.test(params.token ?? "") ? Number(params.token) : undefined;
  const [found, next] = await Promise.all([
    inspect("attribution", { model: model.id, ids: reading.ids, at, token }, { signal }),
    inspect("next", { model: model.id, ids: reading.ids, at }, { signal }),
  ]);
  const sorted = params.order === "size",
    of = found.attribution_of,
    best = next.top.slice(0, 10);
  const choose = h(
    "select",
    {
      "aria-label": t("attribution.token"),
      onchange: (event) => change({ token: event.target.value }),
    },
    best.map((top) => h("option", { value: top.id, selected: top.id === of.id }, nameOf(top))),
    !best.some((top) => top.id === of.id) &&
      h("option", { selected: true, value: of.id }, nameOf(of)),
  );
  return [
    h("p", { class: "prose quiet" }, t("attribution.lead")),
    h(
      "div",
      { class: "row" },
      h("label", { class: "row" }, t("attribution.token"), choose),
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(sorted),
          onclick: () => change({ order: sorted ? null : "size" }),
        },
        t("attribution.sort"),
      ),
    ),
    waterfall(found, sorted, change),
  ];
}

export function waterfall(found, sorted, change) {
  let shares = found.attribution.map((share) => ({ ...share, name: componentName(share) }));
  if (sorted) shares = [...shares].sort((a, b) => Math.abs(b.logit) - Math.abs(a.logit));
  let sum = 0;
  const rows = shares.map((share) => {
    const from = sum;
    sum += share.logit;
    return { ...share, from, to: sum };
  });
  const low = Math.min(0, ...rows.map((r) => r.to)),
    high = Math.max(0, ...rows.map((r) => r.to)),
    span = high - low || 1;
  const place = (x) => `${(100 * (x - low)) / span}%`;
  const line = (name, from, to, text, kind, about, open) => {
    const inner = [
      h("span", { class: "name" }, name),
      h(
        "span",
        { class: "track" },
        h("span", { class: "zero", style: { left: place(0) } }),
        h("span", {
          class: `piece ${kind}`,
          style: {
            left: place(Math.min(from, to)),
            width: `${(100 * Math.abs(to - from)) / span}%`,
          },
        }),
      ),
      h("span", { class: "value num" }, text),
    ];
    const row = open
      ? h("button", { type: "button", class: "bar-row", onclick: open }, inner)
      : h(
          "span",
          { class: "bar-row", tabindex: about ? 0 : null, role: about ? "note" : null },
          inner,
        );
    return h("li", about ? tip(row, about) : row);
  };
  return h(
    "ul",
    { class: "bars waterfall", "aria-label": t("view.attribution") },
    rows.map((r) =>
      line(
        r.name,
        r.from,
        r.to,
        signed(r.logit, 3),
        r.logit < 0 ? "down" : "up",
        () => [
          h("strong", r.name),
          h(
            "dl",
            [
              [t("attribution.share"), signed(r.logit, 4)],
              [t("attribution.so_far"), number(r.to)],
            ].map(([a, b]) => [h("dt", a), h("dd", { class: "num" }, b)]),
          ),
        ],
        change && r.head !== null && r.head !== undefined
          ? () => change({ layer: r.layer, head: r.head, view: "head" })
          : change && r.layer !== null
            ? () => change({ layer: r.layer, view: "walk" })
            : null,
      ),
    ),
    line(t("attribution.total"), 0, found.total, number(found.total), "total", () => [
      t("attribution.logit", {
        logit: number(found.attribution_of.logit, 6),
        total: number(found.total, 6),
      }),
    ]),
  );
}
