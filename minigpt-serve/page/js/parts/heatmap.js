// A matrix on a canvas, of any size: only what can be seen is drawn. Pointing and arrow keys give
// the cell's true number.
import { h, perFrame, say } from "../dom.js";
import { css } from "./paint.js";
import { showTip, hideTip, byTap } from "./tip.js";
import { byFinger } from "../touch.js";

/**
 * `value(i, j)` is a number or null; `scale` its colour. `describe(i, j)` is what the tooltip says
 * (nodes or text), `spoken` the  same for screen readers. A cell is `cell` pixels; the box shows at
 * most `width` × `height` of them and scrolls.
 */
export function heatmap({
  rows,
  columns,
  value,
  scale,
  cell = 18,
  width = 560,
  height = 420,
  label,
  describe,
  spoken,
  onpoint,
  onselect,
  selected,
  pixels,
}) {
  const full = [columns * cell, rows * cell];
  const view = [Math.min(full[0], width), Math.min(full[1], height)];
  const image = pixels ?? render(rows, columns, value, scale);
  const canvas = h("canvas", {
    class: "heatmap",
    tabindex: 0,
    role: "application",
    "aria-label": label,
    "aria-roledescription": "map",
  });
  const spacer = h(
    "div",
    { class: "heat-spacer", style: { width: `${full[0]}px`, height: `${full[1]}px` } },
    canvas,
  );
  const box = h(
    "div",
    { class: "heat-box", style: { width: `${view[0]}px`, height: `${view[1]}px` } },
    spacer,
  );
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = view[0] * ratio;
  canvas.height = view[1] * ratio;
  canvas.style.width = `${view[0]}px`;
  canvas.style.height = `${view[1]}px`;
  const pen = canvas.getContext("2d", { alpha: false });
  let at = selected ?? null,
    lit = null;

  const paint = perFrame(draw);
  function draw() {
    const [x, y] = [box.scrollLeft, box.scrollTop];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.imageSmoothingEnabled = false;
    const c0 = Math.floor(x / cell),
      r0 = Math.floor(y / cell);
    const cn = Math.min(columns - c0, Math.ceil(view[0] / cell) + 1),
      rn = Math.min(rows - r0, Math.ceil(view[1] / cell) + 1);
    pen.drawImage(image, c0, r0, cn, rn, c0 * cell - x, r0 * cell - y, cn * cell, rn * cell);
    const style = getComputedStyle(canvas);
    if (lit) frame(lit, style.getPropertyValue("--orange"), true, x, y);
    if (at) frame(at, style.getPropertyValue("--ink"), false, x, y);
  }
  function frame([i, j], colour, cross, x, y) {
    pen.strokeStyle = colour;
    pen.lineWidth = cross ? 1 : 2;
    if (cross) {
      pen.strokeRect(0.5, i * cell - y + 0.5, view[0] - 1, cell - 1);
      pen.strokeRect(j * cell - x + 0.5, 0.5, cell - 1, view[1] - 1);
    }
    pen.lineWidth = 2;
    pen.strokeRect(j * cell - x + 1, i * cell - y + 1, cell - 2, cell - 2);
  }
  function cellAt(event) {
    const r = canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - r.left + box.scrollLeft) / cell),
      i = Math.floor((event.clientY - r.top + box.scrollTop) / cell);
    return i >= 0 && j >= 0 && i < rows && j < columns ? [i, j] : null;
  }
  const point = (event) => {
    lit = cellAt(event);
    paint();
    onpoint?.(lit);
    const content = lit && describe?.(...lit);
    if (content) showTip(event.clientX, event.clientY, canvas, ...[content].flat());
    else hideTip();
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!byFinger(event)) point(event);
  });
  canvas.addEventListener("pointerleave", (event) => {
    if (byFinger(event)) return;
    lit = null;
    paint();
    onpoint?.(null);
    hideTip();
  });
  canvas.addEventListener("click", (event) => {
    const hit = cellAt(event);
    if (byFinger(event)) {
      byTap();
      point(event);
    }
    if (hit) {
      at = hit;
      paint();
      onselect?.(...hit);
    }
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    if (event.key === "Enter" || event.key === " ") {
      if (at) onselect?.(...at);
      event.preventDefault();
      return;
    }
    if (event.key === "Escape") {
      hideTip();
      return;
    }
    if (!step) return;
    event.preventDefault();
    at = at
      ? [
          Math.max(0, Math.min(rows - 1, at[0] + step[0])),
          Math.max(0, Math.min(columns - 1, at[1] + step[1])),
        ]
      : [0, 0];
    box.scrollTop = clampScroll(box.scrollTop, at[0], view[1]);
    box.scrollLeft = clampScroll(box.scrollLeft, at[1], view[0]);
    paint();
    onpoint?.(at);
    if (spoken) say(spoken(...at));
    const r = canvas.getBoundingClientRect(),
      content = describe?.(...at);
    if (content)
      showTip(
        r.left + (at[1] + 1) * cell - box.scrollLeft,
        r.top + at[0] * cell - box.scrollTop,
        canvas,
        ...[content].flat(),
      );
  });
  canvas.addEventListener("blur", hideTip);
  const clampScroll = (now, index, size) =>
    Math.min(index * cell, Math.max(now, (index + 1) * cell - size));
  box.addEventListener("scroll", paint, { passive: true });
  box.light = (cellNow) => {
    lit = cellNow;
    paint();
  };
  box.select = (cellNow) => {
    at = cellNow;
    paint();
  };
  // What is selected can be seen from the beginning.
  requestAnimationFrame(() => {
    if (at) {
      box.scrollTop = clampScroll(0, at[0], view[1]);
      box.scrollLeft = clampScroll(0, at[1], view[0]);
    }
    draw();
  });
  box.redraw = draw;
  [box.clientWidthWanted, box.clientHeightWanted] = view;
  return box;
}

/** How wide a map may be in this window, beside its names. */
export const room = (most) => Math.max(200, Math.min(most, innerWidth - 150));

/**
 * A map with names at its left and below it; without them where it scrolls, or where a name would
 * have no room.
 */
export function framed(map, { rows, columns, cell, names = [] }) {
  if (rows * cell > map.clientHeightWanted || columns * cell > map.clientWidthWanted || cell < 13)
    return map;
  const [left, below] = names,
    label = (text) => h("span", { class: "mono", dir: "auto" }, text);
  return h(
    "div",
    { class: "framed", style: { "--cell": `${cell}px` } },
    h(
      "div",
      { class: "frame-left", "aria-hidden": "true" },
      Array.from({ length: rows }, (_, i) => label(left(i))),
    ),
    map,
    h(
      "div",
      { class: "frame-below", "aria-hidden": "true" },
      Array.from({ length: columns }, (_, j) => label(below(j))),
    ),
  );
}

/** One pixel a cell. */
export function render(rows, columns, value, scale) {
  const [image, data, done] = blank(rows, columns);
  const none = scale(0);
  for (let i = 0, p = 0; i < rows; i++)
    for (let j = 0; j < columns; j++, p += 4) {
      const x = value(i, j),
        [r, g, b] = x === null || Number.isNaN(x) ? none : scale(x);
      data[p] = r;
      data[p + 1] = g;
      data[p + 2] = b;
      data[p + 3] = 255;
    }
  return done(image);
}

/**
 * One pixel a cell through a table of colours: `codes[i * columns + j]` is an index into `table`
 * (r, g, b, a as one number).
 */
export function renderCodes(rows, columns, codes, table) {
  const [image, data, done] = blank(rows, columns);
  const out = new Uint32Array(data.buffer);
  for (let p = 0; p < out.length; p++) out[p] = table[codes[p]];
  return done(image);
}

function blank(rows, columns) {
  const canvas = h("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d", { alpha: false }),
    image = pen.createImageData(columns, rows);
  return [
    image,
    image.data,
    (made) => {
      pen.putImageData(made, 0, 0);
      return canvas;
    },
  ];
}

/** A colour as one number in the order of bytes of an image. */
export const packed = ([r, g, b]) =>
  (new Uint8Array(new Uint32Array([1]).buffer)[0]
    ? (255 << 24) | (b << 16) | (g << 8) | r
    : (r << 24) | (g << 16) | (b << 8) | 255) >>> 0;
export { css };
