// Which earlier tokens does this head look at, and how is that computed? Five matrices, the same
// rows and columns.
import { h, fill } from "../dom.js";
import { t } from "../i18n.js";
import { inspect } from "../api.js";
import { nameOf } from "../tokens.js";
import { floatsFromBase64 } from "../half.js";
import { attention, dot } from "../arithmetic.js";
import { fixed, number, percent, brief } from "../numbers.js";
import { matrix } from "../parts/matrix.js";
import { formula } from "../parts/formula.js";
import { attentionScale, differenceScale } from "../parts/paint.js";
import { legend } from "../parts/legend.js";
import { oneHead } from "./heads-data.js";

const MOST = 8;

export default async function head(chosen) {
  const { model, reading, layer, head: which, at, signal, overlay } = chosen;
  const [parts, pattern] = await Promise.all([
    inspect("head", { model: model.id, ids: reading.ids, layer, head: which }, { signal }),
    oneHead({ model: model.id, ids: reading.ids, layer, head: which, signal }),
  ]);
  const n = reading.ids.length,
    width = parts.width;
  const table = (name) => {
    const all = floatsFromBase64(parts[name]);
    return Array.from({ length: n }, (_, i) =>
      Array.from(all.subarray(i * width, (i + 1) * width)),
    );
  };
  const [q, k, v] = ["q", "k", "v"].map(table);
  overlay.draw(at, pattern.row(at));
  const from = Math.max(0, Math.min(at - MOST + 1, n - MOST)),
    window_ = [...Array(Math.min(MOST, n)).keys()].map((i) => i + from);
  return [
    h("p", { class: "prose quiet" }, t("head.lead", { width })),
    n > MOST &&
      h("p", { class: "small quiet" }, t("head.window", { from, to: window_.at(-1), all: n })),
    steps({
      q,
      k,
      v,
      keys: window_,
      names: (i) => nameOf(reading.tokens[i]),
      selected: at,
      truth: pattern,
    }),
    formula("attention", model.config),
  ];
}

/**
 * The five steps for some rows and columns of a head; softmax is over all keys, `truth` the model's
 * own weights.
 */
export function steps({ q, k, v, keys, names, selected, truth, scaleBy }) {
  const root = scaleBy ?? Math.sqrt(q[0].length);
  const all = attention(
    keys.map((i) => q[i]),
    k,
    v,
    { hidden: (i, j) => j > keys[i], scale: root },
  );
  const part = (rows) => rows.map((row) => keys.map((j) => row[j]));
  const labels = keys.map(names);
  const most = Math.max(1e-9, ...part(all.raw).flat().map(Math.abs));
  const detail = h("div", { class: "detail panel", "aria-live": "polite" });
  const weightScale = attentionScale();
  const tables = [];
  // Where nobody points: the selected query and the key that it looks at most.
  const row = Math.max(0, keys.indexOf(selected)),
    seen = keys.map((j) => all.weights[row][j]),
    first = [row, seen.indexOf(Math.max(...seen))];
  const point = (cell) => {
    tables.forEach((table) => table.light(cell ?? undefined));
    explain(cell ?? first);
  };
  const written = keys.length > 4 ? brief : (x) => fixed(x, 2);
  const make = (caption, values, scale, format = written) => {
    const table = matrix({
      values,
      scale,
      format,
      rows: labels,
      columns: labels,
      label: caption,
      onpoint: point,
      describe: (i, j) => about(i, j),
    });
    tables.push(table);
    return table;
  };
  const about = (i, j) => [
    h("strong", { class: "mono", dir: "auto" }, `${labels[i]} → ${labels[j]}`),
    h(
      "dl",
      [
        ["q·k", number(all.raw[i][keys[j]])],
        ["÷ √d", number(all.scaled[i][keys[j]])],
        ["softmax", keys[j] > keys[i] ? t("heads.hidden") : percent(all.weights[i][keys[j]])],
      ].map(([a, b]) => [h("dt", a), h("dd", { class: "num" }, b)]),
    ),
  ];

  function explain([i, j]) {
    const [qi, kj] = [keys[i], keys[j]],
      products = q[qi].map((x, c) => x * k[kj][c]),
      shown = 4;
    const terms = products
      .slice(0, shown)
      .map((_, c) => `${fixed(q[qi][c], 2)}·${fixed(k[kj][c], 2)}`)
      .join(" + ");
    const hidden = kj > qi,
      a = all.weights[i][kj];
    fill(
      detail,
      h("strong", { class: "mono", dir: "auto" }, `${labels[i]} → ${labels[j]}`),
      h(
        "ol",
        { class: "num" },
        h(
          "li",
          `q·k = ${terms}${q[qi].length > shown ? " + …" : ""} = ${fixed(dot(q[qi], k[kj]), 4)}`,
        ),
        h("li", `÷ √${q[0].length} = ${fixed(root, 3)} → ${fixed(all.scaled[i][kj], 4)}`),
        h("li", hidden ? t("head.is_hidden") : t("head.is_seen")),
        h(
          "li",
          `softmax → ${hidden ? "0" : percent(a)}`,
          truth && !hidden
            ? h(
                "span",
                { class: "quiet" },
                ` (${t("head.model", { weight: percent(truth.weight(qi, kj)) })})`,
              )
            : null,
        ),
        h(
          "li",
          t("head.value", {
            value:
              v[kj]
                .slice(0, shown)
                .map((x) => fixed(x, 2))
                .join(", ") + (v[kj].length > shown ? ", …" : ""),
            weight: hidden ? "0" : fixed(a, 4),
          }),
        ),
      ),
    );
  }

  const sums = h(
    "table",
    { class: "matrix sums" },
    h("caption", t("head.sum")),
    h("thead", h("tr", h("th", "Σ"))),
    h(
      "tbody",
      all.weights.map((row) =>
        h(
          "tr",
          h(
            "td",
            { class: "num" },
            fixed(
              row.reduce((x, y) => x + y, 0),
              2,
            ),
          ),
        ),
      ),
    ),
  );
  const columns = [...Array(Math.min(4, v[0].length)).keys()];
  const mixed = matrix({
    values: all.output.map((row) => columns.map((c) => row[c])),
    scale: differenceScale(Math.max(1e-9, ...all.output.flat().map(Math.abs))),
    rows: labels,
    columns: columns.map((c) => `z${sub(c)}`),
    label: t("head.step5", { of: v[0].length }),
    describe: (i, c) => `${labels[i]}: z${sub(c)} = ${number(all.output[i][c])}`,
  });
  const scores = differenceScale(most),
    cell = (...tables) => h("div", { class: "scroll" }, tables);
  const figure = h(
    "div",
    { class: "steps-row" },
    cell(make(t("head.step1"), part(all.raw), scores)),
    cell(make(t("head.step2"), part(all.scaled), scores)),
    cell(make(t("head.step3"), part(all.masked), scores)),
    cell(
      h(
        "div",
        { class: "beside" },
        make(t("head.step4"), part(all.weights), weightScale, (x) => fixed(x, 2)),
        sums,
      ),
    ),
    cell(mixed),
  );
  point(first);
  tables.forEach((table) => table.light(first));
  const rounded = most >= 10 ? Math.ceil(most) : Number(most.toPrecision(2));
  return h(
    "div",
    figure,
    h(
      "div",
      { class: "row" },
      legend({
        label: t("legend.scores"),
        scale: scores,
        at: [-rounded, 0, rounded],
        format: (x) => number(x, 2),
      }),
      legend({
        label: t("legend.weights"),
        scale: weightScale,
        at: [0, 0.5, 1],
        format: (x) => percent(x).replace(".0", ""),
      }),
    ),
    detail,
  );
}

const sub = (n) => String(n).replace(/\d/g, (d) => "₀₁₂₃₄₅₆₇₈₉"[d]);
