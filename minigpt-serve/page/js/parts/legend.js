// What the colours of a map mean, with numbers.
import { h } from "../dom.js";
import { css } from "./paint.js";

/** A strip of colours with numbers below it. `at` are values, `scale` gives a value's colour. */
export function legend({ label, scale, at, format }) {
  const low = at[0],
    high = at.at(-1),
    steps = 24;
  const cells = Array.from({ length: steps }, (_, i) =>
    h("i", { style: { "background-color": css(scale(low + ((high - low) * i) / (steps - 1))) } }),
  );
  return h(
    "div",
    { class: "legend" },
    label && h("span", label),
    h(
      "span",
      { class: "ramp" },
      h("span", { class: "colours", "aria-hidden": "true" }, cells),
      h(
        "span",
        { class: "marks num" },
        at.map((x) => h("span", format(x))),
      ),
    ),
  );
}
