// Colour scales between tokens of the theme. Pure: colours are [r, g, b].

export const parseColour = (text) => {
  const hex = text.trim().replace("#", "");
  const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16));
};

export const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));
export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
const clamp = (x) => (x > 0 ? (x < 1 ? x : 1) : 0);

/** Attention: light to dark through `middle`, with gamma 0.5 so that small weights show. */
export const sequential =
  (low, middle, high, gamma = 0.5) =>
  (x) => {
    const t = clamp(x) ** gamma;
    return t < 0.5 ? mix(low, middle, 2 * t) : mix(middle, high, 2 * t - 1);
  };

/** Differences around 0: `low` below, `high` above; `most` is where the colour is full. */
export const diverging =
  (low, middle, high, most = 1) =>
  (x) =>
    x < 0 ? mix(middle, low, clamp(-x / most)) : mix(middle, high, clamp(x / most));

/** Whether dark text reads better on a colour (WCAG's relative luminance). */
export function luminance(rgb) {
  const [r, g, b] = rgb.map((x) => {
    const c = x / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
export const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
/** The better of two inks on a paper. */
export const ink = (paper, a, b) => (contrast(paper, a) >= contrast(paper, b) ? a : b);
