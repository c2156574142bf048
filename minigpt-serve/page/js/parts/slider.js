// A labelled slider with its value, a sentence about it, and a small picture if there is one.
import { h } from "../dom.js";

let made = 0;

/**
 * `scale: 'log'` spreads small values. `oninput` gets the value at once, `onchange` when it is let
 * go.
 */
export function slider({
  label,
  about,
  value,
  least,
  most,
  step,
  format = String,
  oninput,
  onchange,
  picture,
  scale,
}) {
  const id = `slider-${++made}`;
  const to = (x) => (scale === "log" ? (Math.log(x / least) / Math.log(most / least)) * 1000 : x);
  const from = (x) => (scale === "log" ? least * (most / least) ** (x / 1000) : x);
  const round = (x) => (scale === "log" ? Number(x.toPrecision(2)) : x);
  const output = h("output", { for: id }, format(value));
  const input = h("input", {
    id,
    type: "range",
    min: scale === "log" ? 0 : least,
    max: scale === "log" ? 1000 : most,
    step: scale === "log" ? 1 : step,
    "aria-valuetext": format(value),
    "aria-describedby": about ? `${id}-about` : null,
  });
  input.value = to(value);
  const read = () => {
    const x = round(from(Number(input.value)));
    output.value = format(x);
    input.setAttribute("aria-valuetext", format(x));
    return x;
  };
  input.addEventListener("input", () => oninput?.(read()));
  input.addEventListener("change", () => onchange?.(read()));
  const element = h(
    "div",
    { class: "slider" },
    h("label", { for: id }, label),
    output,
    input,
    picture,
    about && h("p", { id: `${id}-about`, class: "small quiet" }, about),
  );
  element.put = (x) => {
    input.value = to(x);
    read();
  };
  return element;
}
