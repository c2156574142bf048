// What would the model say if it stopped here? Layers down, tokens across; the selected column
// opened.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { isPost } from "../model.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { percent } from "../numbers.js";
import { bars } from "../parts/bars.js";
import { tip } from "../parts/tip.js";
import { legend } from "../parts/legend.js";
import { attentionScale, on } from "../parts/paint.js";

const COLUMNS = 12;

export default async function lens(chosen) {
  const { model, reading, at, layer, change, signal } = chosen;
  const { lens: cells } = await inspect(
    "lens",
    { model: model.id, ids: reading.ids, top: 1 },
    { signal },
  );
  const { lens: column } = await inspect(
    "lens",
    { model: model.id, ids: reading.ids, top: 5, at },
    { signal },
  );
  return [
    h("p", { class: "prose quiet" }, t(isPost(model) ? "lens.lead.post" : "lens.lead")),
    lensTable({ cells, reading, at, layer, change }),
    legend({
      label: t("legend.probability"),
      scale: attentionScale(),
      at: [0, 0.25, 0.5, 0.75, 1],
      format: (x) => percent(x).replace(".0", ""),
    }),
    h("h3", t("lens.column", { token: nameOf(reading.tokens[at]), position: at })),
    lensColumn(
      column.map((row) => row[0]),
      layer,
    ),
  ];
}

/** The layer from which on the final answer wins at a position; 0 is the embedding. */
export function settles(column) {
  const last = column.at(-1)[0].id;
  let from = column.length - 1;
  while (from > 0 && column[from - 1][0].id === last) from--;
  return from;
}

export const layerName = (layer, count) =>
  layer === 0
    ? t("lens.embedding")
    : layer === count - 1
      ? t("lens.last", { n: layer - 1 })
      : t("lens.after", { n: layer - 1 });

/** `cells[layer][position][0]`; a window of columns around the selected one. */
export function lensTable({ cells, reading, at, layer, change }) {
  const n = reading.tokens.length,
    from = Math.max(0, Math.min(at - COLUMNS + 3, n - COLUMNS)),
    columns = [...Array(Math.min(COLUMNS, n)).keys()].map((i) => i + from);
  const scale = attentionScale(),
    count = cells.length;
  const wins = columns.map((p) => settles(cells.map((row) => row[p])));
  const cell = (l, p, c) => {
    const best = cells[l][p][0],
      name = nameOf(best);
    const button = h(
      "button",
      {
        type: "button",
        class: `lens-cell mono${wins[c] === l ? " wins" : ""}`,
        dir: "auto",
        style: on(scale(best.probability)),
        "aria-label": `${layerName(l, count)}, ${nameOf(reading.tokens[p])}: ${name} ${percent(best.probability)}${wins[c] === l ? `, ${t("lens.wins")}` : ""}`,
        onclick: () => change?.({ at: p, layer: Math.max(0, l - 1) }),
      },
      name,
    );
    return h(
      "td",
      { class: p === at ? "here" : null },
      tip(button, () => [
        h("strong", { class: "mono", dir: "auto" }, name),
        ` ${percent(best.probability)}`,
        h("p", layerName(l, count)),
        wins[c] === l ? h("p", t("lens.wins")) : null,
      ]),
    );
  };
  const box = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": t("view.lens") },
    h(
      "table",
      { class: "lens" },
      h(
        "thead",
        h(
          "tr",
          h("td"),
          columns.map((p) =>
            h(
              "th",
              { scope: "col", class: `mono${p === at ? " here" : ""}`, dir: "auto" },
              nameOf(reading.tokens[p]),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        cells.map((_, l) =>
          h(
            "tr",
            { class: l - 1 === layer ? "open" : null },
            h("th", { scope: "row" }, layerName(l, count)),
            columns.map((p, c) => cell(l, p, c)),
          ),
        ),
      ),
    ),
  );
  // On a narrow screen the table scrolls: to the selected token.
  requestAnimationFrame(() => {
    const here = box.querySelector("thead .here");
    if (here && box.scrollWidth > box.clientWidth)
      box.scrollLeft = here.offsetLeft - box.clientWidth + here.offsetWidth + 8;
  });
  return h(
    "div",
    n > COLUMNS &&
      h("p", { class: "small quiet" }, t("head.window", { from, to: columns.at(-1), all: n })),
    box,
  );
}

export function lensColumn(column, layer) {
  return h(
    "div",
    { class: "lens-column" },
    column.map((best, l) =>
      h(
        "div",
        { class: `panel${l - 1 === layer ? " open" : ""}` },
        h("strong", { class: "small" }, layerName(l, column.length)),
        bars({
          most: 1,
          rows: best.map((token) => ({
            name: nameOf(token),
            value: token.probability,
            text: percent(token.probability),
          })),
        }),
      ),
    ),
  );
}
