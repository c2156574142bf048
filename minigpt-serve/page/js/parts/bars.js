// Horizontal bars with a name, a length and the number itself.
import { h } from "../dom.js";
import { tip } from "./tip.js";

/**
 * `rows`: `{ name, value, text, kind, outline, tip, onclick, selected }`, values from 0 to `most`,
 * or around 0 if `signed`.
 */
export function bars({ rows, most, signed = false, label }) {
  const scale = most || Math.max(1e-12, ...rows.map((row) => Math.abs(row.value)));
  const list = h(
    "ul",
    { class: `bars${signed ? " signed" : ""}`, "aria-label": label },
    rows.map((row) => bar(row, scale, signed)),
  );
  return list;
}

function bar(row, scale, signed) {
  const size = `${Math.min(100, (100 * Math.abs(row.value)) / scale) / (signed ? 2 : 1)}%`;
  const fill = h("span", {
    class: `fill ${row.kind ?? ""} ${row.outline ? "outline" : ""} ${signed && row.value < 0 ? "left" : ""}`,
    style: { width: size },
  });
  const inner = [
    h("span", { class: "name mono", dir: "auto" }, row.name),
    h("span", { class: "track" }, fill, row.dots),
    h("span", { class: "value num" }, row.text),
  ];
  const shell = row.onclick
    ? h(
        "button",
        {
          class: "bar-row",
          type: "button",
          onclick: row.onclick,
          "aria-pressed": row.selected === undefined ? null : String(row.selected),
        },
        inner,
      )
    : h(
        "span",
        { class: "bar-row", tabindex: row.tip ? 0 : null, role: row.tip ? "note" : null },
        inner,
      );
  if (row.tip) tip(shell, row.tip);
  return h("li", shell);
}
