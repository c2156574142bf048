// Colours of the theme, for what is drawn rather than styled.
import { parseColour, sequential, diverging, css, ink } from "../colour.js";

export const token = (name) =>
  parseColour(getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));

export const attentionScale = () => sequential(token("map-0"), token("map-1"), token("map-2"));
export const differenceScale = (most) =>
  diverging(token("blue"), token("grey"), token("orange"), most);
export const surpriseScale = () => {
  const [paper, orange] = [token("paper"), token("surprise")];
  return (x) => sequentialTwo(paper, orange, Math.min(1, x / 12));
};
const sequentialTwo = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));

/** Paper and readable ink on it, as styles. */
export function on(colour) {
  return { "background-color": css(colour), color: css(ink(colour, [0, 0, 0], [255, 255, 255])) };
}
export { css, ink };
