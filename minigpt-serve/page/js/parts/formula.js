// Formulas in MathML, written as small lists; each symbol says what it is when pointed at. A formula
// that states what the loaded model computes follows the model's configuration.
import { h } from "../dom.js";
import { t } from "../i18n.js";
import { tip } from "./tip.js";

const s = (name, key) => {
  const element = h("m:mi", { class: "symbol", tabindex: 0 }, name);
  return tip(element, () => [h("strong", name), " ", t(`symbol.${key}`)]);
};
const o = (text) => h("m:mo", text);
const n = (text) => h("m:mn", text);
const f = (text) => h("m:mi", { mathvariant: "normal" }, text);
const row = (...parts) => h("m:mrow", ...parts);
const frac = (a, b) => h("m:mfrac", row(a), row(b));
const root = (...x) => h("m:msqrt", ...x);
const sub = (a, b) => h("m:msub", a, b);
const sup = (a, b) => h("m:msup", a, b);
const fence = (...x) => row(o("("), ...x, o(")"));
const sum = (index) => h("m:munder", o("∑"), s(index, index));

/** `+ b` with an index, if there is such a bias. */
const bias = (present, index) => (present ? [o("+"), sub(s("b", "bias"), index)] : []);

/** What the activation of a configuration is called. */
export const activationName = ({ activation_function: name } = {}) =>
  name === "relu" ? "ReLU" : "GELU";

/**
 * Each formula is a list of pieces, or of lines of pieces. A line is broken between pieces where the
 * window is too narrow, never within one. `c` is the configuration of the loaded model, or empty.
 */
const FORMULAS = {
  embed: (c) => {
    const token = [f("wte"), o("["), sub(s("t", "token"), s("p", "p")), o("]")];
    const position = {
      learned: [o("+"), f("wpe"), o("["), s("p", "p"), o("]")],
      sinusoidal: [o("+"), f("PE"), fence(s("p", "p"))],
    }[c.position_embedding ?? "learned"];
    const scale = c.scale_embeddings ? [o("·"), root(s("C", "C"))] : [];
    return [
      [sub(s("x", "x"), s("p", "p"))],
      [o("="), ...token, ...scale],
      ...(position ? [position] : []),
    ];
  },
  qkv: (c) => {
    const one = (name) => [
      s(name, name),
      o("="),
      s("x", "x"),
      sub(s("W", "W"), s(name, name)),
      ...bias(c.qkv_bias, s(name, name)),
    ];
    return ["q", "k", "v"].map((name) => (name === "v" ? one(name) : [...one(name), o(",")]));
  },
  attention: () => [
    [f("attention"), fence(s("Q", "Q"), o(","), s("K", "K"), o(","), s("V", "V"))],
    [
      o("="),
      f("softmax"),
      row(
        o("("),
        frac(
          row(s("Q", "Q"), sup(s("K", "K"), s("T", "transpose"))),
          root(sub(s("d", "d"), s("k", "k"))),
        ),
        o("+"),
        s("M", "M"),
        o(")"),
      ),
      s("V", "V"),
    ],
  ],
  softmax: () => [
    [sub(s("a", "a"), s("i", "i"))],
    [
      o("="),
      frac(
        sup(f("e"), sub(s("s", "s"), s("i", "i"))),
        row(sum("j"), sup(f("e"), sub(s("s", "s"), s("j", "j")))),
      ),
    ],
  ],
  temperature: () => {
    const power = (index) =>
      sup(f("e"), row(sub(s("l", "logit"), s(index, index)), o("/"), s("T", "temperature")));
    return [
      [sub(s("p", "prob"), s("i", "i"))],
      [o("="), frac(power("i"), row(sum("j"), power("j")))],
    ];
  },
  norm: (c) => [
    [f("LN"), fence(s("x", "x"))],
    [
      o("="),
      frac(
        row(s("x", "x"), o("−"), s("μ", "mu")),
        root(sup(s("σ", "sigma"), n("2")), o("+"), s("ε", "epsilon")),
      ),
      o("·"),
      s("g", "g"),
      ...(c.norm_bias === false ? [] : [o("+"), s("b", "b")]),
    ],
  ],
  gelu: () => [
    [f("GELU"), fence(s("x", "x1"))],
    [o("="), s("x", "x1"), o("·"), s("Φ", "phi"), fence(s("x", "x1"))],
  ],
  mlp: (c) => [
    [f("mlp"), fence(s("x", "x"))],
    [
      o("="),
      f(activationName(c)),
      fence(s("x", "x"), sub(s("W", "W"), n("1")), ...bias(c.mlp_bias, n("1"))),
      sub(s("W", "W"), n("2")),
    ],
    ...(c.mlp_bias ? [bias(true, n("2"))] : []),
  ],
  block: (c) => {
    const line = (part, i) => {
      const norm = sub(f("LN"), n(i));
      const written =
        c.norm_position === "post"
          ? [norm, fence(s("x", "x"), o("+"), f(part), fence(s("x", "x")))]
          : [s("x", "x"), o("+"), f(part), fence(norm, fence(s("x", "x")))];
      return [[s("x", "x"), o("←"), ...written]];
    };
    return { lines: [line("attn", "1"), line("mlp", "2")] };
  },
  loss: () => [
    [s("L", "L")],
    [
      o("="),
      o("−"),
      frac(n("1"), s("T", "T")),
      h("m:munderover", o("∑"), row(s("t", "t"), o("="), n("1")), s("T", "T")),
    ],
    [
      f("log"),
      s("p", "prob"),
      fence(
        sub(s("x", "token"), s("t", "t")),
        o("|"),
        sub(s("x", "token"), row(o("<"), s("t", "t"))),
      ),
    ],
  ],
  step: () => [
    [s("w", "w"), o("←")],
    [s("w", "w"), o("−"), s("η", "eta"), frac(row(o("∂"), s("L", "L")), row(o("∂"), s("w", "w")))],
  ],
  scaling: () => [
    [s("L", "L"), fence(s("N", "N"), o(","), s("D", "D"))],
    [o("≈"), s("E", "E")],
    [o("+"), frac(s("A", "A"), sup(s("N", "N"), s("α", "alpha")))],
    [o("+"), frac(s("B", "B"), sup(s("D", "D"), s("β", "beta")))],
  ],
};

/** The names of all formulas. */
export const formulas = Object.keys(FORMULAS);

/** A formula, of the model with this configuration where one is loaded. */
export function formula(name, config) {
  const made = FORMULAS[name](config ?? {});
  // An operator at the beginning of a piece stands between two pieces, not before one.
  const piece = (parts) => {
    if (parts[0].localName === "mo") parts[0].setAttribute("form", "infix");
    return h("m:math", { display: "block" }, row(...parts));
  };
  const lines = (made.lines ?? [made]).map((pieces) =>
    h("div", { class: "formula-line" }, pieces.map(piece)),
  );
  return h("div", { class: "formula", role: "group", "aria-label": t("formula.label") }, lines);
}
