// Arcs over a strip of tokens: who looks at whom, as wide as the weight.
import { h, fill, perFrame } from "../dom.js";

/**
 * An overlay for a strip; `draw(from, weights)` shows what the token `from` looks at, `draw(null)`
 * nothing.
 */
export function arcs(strip) {
  const svg = h("svg:svg", { class: "arcs", "aria-hidden": "true" });
  const box = h("div", { class: "arc-box" }, svg, strip);
  let last = [null];
  box.draw = (from, weights) => {
    last = [from, weights];
    strip.mark(from === null ? null : weights);
    paint();
  };
  function paint() {
    const [from, weights] = last;
    if (from === null || from === undefined) {
      fill(svg);
      return;
    }
    const r = box.getBoundingClientRect(),
      seen = strip.getBoundingClientRect();
    // Only what can be seen: a long strip scrolls.
    const place = (i) => {
      const c = strip.cell(i)?.getBoundingClientRect();
      return c && c.top >= seen.top - 1 && c.bottom <= seen.bottom + 1
        ? [c.left + c.width / 2 - r.left, c.top - r.top]
        : null;
    };
    const end = place(from);
    if (!end) {
      fill(svg);
      return;
    }
    const strong = [...weights.keys()]
      .filter((j) => weights[j] >= 0.02)
      .sort((a, b) => weights[b] - weights[a])
      .slice(0, 24);
    fill(
      svg,
      strong.map((j) => {
        const start = place(j);
        // A line of tokens further up is marked below its tokens; an arc to it would cross the
        // others.
        if (!start || Math.abs(start[1] - end[1]) > 4) return null;
        const lift = Math.min(36, 8 + Math.abs(end[0] - start[0]) / 8);
        return h("svg:path", {
          d: `M${start[0]} ${start[1]}C${start[0]} ${start[1] - lift} ${end[0]} ${end[1] - lift} ${end[0]} ${end[1]}`,
          "stroke-width": (1 + 5 * weights[j]).toFixed(1),
          opacity: (0.25 + 0.75 * weights[j]).toFixed(2),
        });
      }),
    );
  }
  strip.addEventListener("scroll", perFrame(paint), { passive: true });
  return box;
}
