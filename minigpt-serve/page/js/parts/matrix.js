// A small matrix with its numbers written in the cells.
import { h } from "../dom.js";
import { tip } from "./tip.js";
import { fixed } from "../numbers.js";
import { on } from "./paint.js";
import { byFinger } from "../touch.js";

/**
 * `values[i][j]`; -Infinity is drawn as hidden. `row` and `column` are lit. `edit(i, j, x)` makes
 * cells inputs.
 */
export function matrix({
  values,
  scale,
  places = 2,
  rows,
  columns,
  label,
  light,
  onpoint,
  describe,
  edit,
  format = (x) => fixed(x, places),
}) {
  const cells = values.map((line, i) => line.map((x, j) => cell(x, i, j)));
  function cell(x, i, j) {
    const style = scale && Number.isFinite(x) ? on(scale(x)) : {};
    const name = `${rows?.[i] ?? i}, ${columns?.[j] ?? j}`;
    if (edit) {
      const input = h("input", {
        type: "number",
        step: "0.1",
        value: String(Number(x.toFixed(4))),
        "aria-label": `${label} ${name}`,
        class: "num",
      });
      input.addEventListener("input", () => {
        const to = Number(input.value);
        if (input.value !== "" && Number.isFinite(to))
          edit(i, j, Math.max(-1000, Math.min(1000, to)));
      });
      return h("td", input);
    }
    const td = h(
      "td",
      { class: `num${Number.isFinite(x) ? "" : " off"}`, style, tabindex: describe ? 0 : null },
      format(x),
    );
    if (describe) tip(td, () => describe(i, j));
    if (onpoint) {
      td.addEventListener("pointerenter", () => onpoint([i, j]));
      td.addEventListener("focus", () => onpoint([i, j]));
      td.addEventListener("pointerleave", (event) => {
        if (!byFinger(event)) onpoint(null);
      });
    }
    return td;
  }
  const table = h(
    "table",
    { class: "matrix" },
    label && h("caption", label),
    columns &&
      h(
        "thead",
        h(
          "tr",
          rows && h("td"),
          columns.map((name) => h("th", { scope: "col", class: "mono", dir: "auto" }, name)),
        ),
      ),
    h(
      "tbody",
      cells.map((line, i) =>
        h("tr", rows && h("th", { scope: "row", class: "mono", dir: "auto" }, rows[i]), line),
      ),
    ),
  );
  table.light = ([i, j] = [null, null]) =>
    cells.forEach((line, r) =>
      line.forEach((td, c) => {
        td.classList.toggle("lit", r === i || c === j);
        td.classList.toggle("here", r === i && c === j);
      }),
    );
  if (light) table.light(light);
  return table;
}
