// Numbers as people read them.

/** Four significant digits, without an exponent where it can be avoided. */
export function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (x === -Infinity) return "−∞";
  if (x === Infinity) return "∞";
  if (Number.isNaN(x)) return "NaN";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e7 || size < 1e-4) return x.toExponential(2).replace("-", "−").replace("e+", "e");
  const places = Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(size))));
  return minus(x.toFixed(size >= 1000 ? 0 : places));
}
const minus = (text) => text.replace("-", "−");

/** A fixed number of places, with a true minus. */
export const fixed = (x, places) => (Number.isFinite(x) ? minus(x.toFixed(places)) : number(x));

/** A number in a narrow cell: two digits or so; its place beside it tells the rest. */
export const brief = (x) =>
  Number.isFinite(x) ? fixed(Math.abs(x) < 0.05 ? 0 : x, Math.abs(x) >= 9.95 ? 0 : 1) : number(x);

/** Bits of surprisal: what is nearly nothing is not counted in millionths. */
export const bits = (x) => (x < 0.005 ? "0.00" : number(x, 3));

/** A probability as per cent. */
export function percent(p) {
  if (p === null || p === undefined || Number.isNaN(p)) return "–";
  const x = 100 * p;
  if (x === 0) return "0 %";
  if (x < 0.001) return "< 0.001 %";
  return `${x >= 99.95 ? (x >= 99.9995 ? x.toFixed(0) : x.toFixed(3)) : x >= 10 ? x.toFixed(1) : x >= 0.1 ? x.toFixed(2) : x.toFixed(3)} %`;
}

/** 1400000 → 1.4M. */
export function short(n) {
  for (const [size, unit] of [
    [1e12, "T"],
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ])
    if (n >= size * 0.9995) {
      const x = n / size;
      return `${x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1).replace(/\.0$/, "") : x.toFixed(2).replace(/\.?0+$/, "")}${unit}`;
    }
  return String(Math.round(n));
}

/** 1234567 → 1,234,567. */
export const whole = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** Seconds as 3:25 or 1:02:03. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.round(seconds),
    two = (x) => String(x).padStart(2, "0");
  return s >= 3600
    ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

export const signed = (x, places = 2) => (x > 0 ? "+" : "") + fixed(x, places);

/** A number beside an axis, as short as it can be. */
export const tick = (x) =>
  Math.abs(x) >= 10000
    ? short(Math.abs(x)).replace(/^/, x < 0 ? "−" : "")
    : Math.abs(x) > 0 && Math.abs(x) < 0.001
      ? number(x, 1)
      : minus(String(Number(x.toPrecision(6))));
