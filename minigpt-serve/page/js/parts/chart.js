// Curves that can be compared, zoomed (drag), read (crosshair, arrow keys) and smoothed with the
// raw line behind.
import { h, fill, say, perFrame } from "../dom.js";
import { t } from "../i18n.js";
import { ticks, logTicks, thin, smooth, nearest } from "../curves.js";
import { number, tick, duration } from "../numbers.js";
import { byFinger } from "../touch.js";

const SIDES = { left: 52, right: 14, top: 10, bottom: 34 };
let made = 0;

/**
 * `series`: `{ name, points: [[x, y]], colour, dashed, width }`; `marks`: `{ x, label }`.
 * `onread(x)` hears the crosshair.
 */
export function chart({
  series,
  marks = [],
  height = 320,
  log = false,
  smoothing = 0,
  xLabel,
  yLabel,
  xKind = "number",
  label,
  onread,
  zoom = null,
  onzoom,
  dots = false,
}) {
  const id = `clip-${++made}`,
    PAD = { ...SIDES, top: yLabel ? 24 : SIDES.top };
  const svg = h("svg:svg", {
    class: "chart",
    role: "application",
    tabindex: 0,
    "aria-label": label,
    "aria-roledescription": t("chart.role"),
  });
  const reading = h("div", { class: "chart-reading num", "aria-live": "off" });
  const element = h("div", { class: "chart-box" }, svg, reading);
  let width = 640,
    range = zoom,
    cross = null,
    drag = null;
  const all = () =>
    series
      .map((s) => ({
        ...s,
        raw: s.points.filter((p) => Number.isFinite(p[1]) && (!log || p[1] > 0)),
      }))
      .filter((s) => s.raw.length)
      .map((s) => ({ ...s, line: s.dashed ? s.raw : smooth(s.raw, smoothing) }));
  let lines = all();

  function scales() {
    const xs = lines.flatMap((s) => [s.raw[0][0], s.raw.at(-1)[0]]);
    const [x0, x1] = range ?? [Math.min(...xs, Infinity), Math.max(...xs, -Infinity)];
    const seen = lines.flatMap((s) =>
      s.line.filter((p) => p[0] >= x0 && p[0] <= x1).map((p) => p[1]),
    );
    let low = Infinity,
      high = -Infinity;
    for (const y of seen) {
      if (y < low) low = y;
      if (y > high) high = y;
    }
    if (!(high >= low)) {
      low = 0;
      high = 1;
    }
    if (log) {
      low /= 1.05;
      high *= 1.05;
    } else {
      const room = (high - low || Math.abs(high) || 1) * 0.05;
      low = low >= 0 && low < room * 4 ? 0 : low - room;
      high += room;
    }
    const w = width - PAD.left - PAD.right,
      hgt = height - PAD.top - PAD.bottom;
    const fx = (x) => PAD.left + ((x - x0) / (x1 - x0 || 1)) * w;
    const f = (y) => (log ? Math.log(y) : y);
    const fy = (y) => PAD.top + hgt - ((f(y) - f(low)) / (f(high) - f(low) || 1)) * hgt;
    return {
      x0,
      x1,
      low,
      high,
      w,
      hgt,
      fx,
      fy,
      back: (px) => x0 + ((px - PAD.left) / w) * (x1 - x0),
    };
  }
  const xText = (x) => (xKind === "time" ? duration(x) : tick(x));

  function draw() {
    width = Math.max(280, element.clientWidth || 640);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    if (!lines.length) {
      fill(
        svg,
        h(
          "svg:text",
          { x: width / 2, y: height / 2, class: "axis", "text-anchor": "middle" },
          t("chart.empty"),
        ),
      );
      return;
    }
    const s = scales();
    const path = (points) =>
      points
        .map((p, i) => `${i ? "L" : "M"}${s.fx(p[0]).toFixed(1)} ${s.fy(p[1]).toFixed(1)}`)
        .join("");
    const near = (points) => {
      const a = Math.max(0, nearest(points, s.x0) - 1),
        b = nearest(points, s.x1) + 2;
      return thin(points.slice(a, b), Math.ceil(s.w / 2));
    };
    const yTicks = log
      ? logTicks(s.low, s.high)
      : ticks(s.low, s.high, Math.max(3, Math.floor(s.hgt / 55)));
    fill(
      svg,
      h(
        "svg:clipPath",
        { id },
        h("svg:rect", { x: PAD.left, y: PAD.top - 3, width: s.w, height: s.hgt + 6 }),
      ),
      yTicks.map((y) => [
        h("svg:line", {
          x1: PAD.left,
          x2: width - PAD.right,
          y1: s.fy(y),
          y2: s.fy(y),
          class: "grid",
        }),
        h(
          "svg:text",
          { x: PAD.left - 6, y: s.fy(y) + 4, class: "axis", "text-anchor": "end" },
          tick(y),
        ),
      ]),
      ticks(s.x0, s.x1, Math.max(3, Math.floor(s.w / 90)))
        .filter((x) => x >= s.x0 && x <= s.x1)
        .map((x) =>
          h(
            "svg:text",
            { x: s.fx(x), y: height - 18, class: "axis", "text-anchor": "middle" },
            xText(x),
          ),
        ),
      xLabel &&
        h(
          "svg:text",
          { x: width - PAD.right, y: height - 3, class: "axis", "text-anchor": "end" },
          xLabel,
        ),
      yLabel && h("svg:text", { x: 2, y: 12, class: "axis" }, yLabel),
      h(
        "svg:g",
        { "clip-path": `url(#${id})` },
        lines
          .filter((l) => smoothing > 0 && !l.dashed)
          .map((l) => h("svg:path", { d: path(near(l.raw)), class: "raw", stroke: l.colour })),
        lines.map((l) =>
          h("svg:path", {
            d: path(near(l.line)),
            class: `line${l.dashed ? " dashed" : ""}`,
            stroke: l.colour,
            "stroke-width": l.width ?? 1.8,
          }),
        ),
        lines
          .filter((l) => dots || l.dots || l.line.length === 1)
          .flatMap((l) =>
            l.line.map((p) =>
              h("svg:circle", { cx: s.fx(p[0]), cy: s.fy(p[1]), r: 2.5, fill: l.colour }),
            ),
          ),
        marks.map((m) => [
          h("svg:line", {
            x1: s.fx(m.x),
            x2: s.fx(m.x),
            y1: PAD.top,
            y2: PAD.top + s.hgt,
            class: "mark",
          }),
          h(
            "svg:text",
            { x: s.fx(m.x) + 4, y: PAD.top + 12 + 14 * (m.row ?? 0), class: "axis marked" },
            m.label,
          ),
        ]),
        drag &&
          h("svg:rect", {
            x: Math.min(drag.from, drag.to),
            y: PAD.top,
            width: Math.abs(drag.to - drag.from),
            height: s.hgt,
            class: "drag",
          }),
        cross !== null && [
          h("svg:line", {
            x1: s.fx(cross),
            x2: s.fx(cross),
            y1: PAD.top,
            y2: PAD.top + s.hgt,
            class: "cross",
          }),
          lines.map((l) => {
            const p = l.line[nearest(l.line, cross)];
            return h("svg:circle", { cx: s.fx(p[0]), cy: s.fy(p[1]), r: 3.5, fill: l.colour });
          }),
        ],
      ),
    );
  }
  const paint = perFrame(draw);

  function read(x) {
    cross = x;
    const at =
      x === null
        ? null
        : lines.map((l) => ({ l, p: l.line[nearest(l.line, x)], q: l.raw[nearest(l.raw, x)] }));
    fill(
      reading,
      at
        ? [
            h("span", `${xLabel ?? ""} ${xText(at[0]?.p[0] ?? x)}`),
            at.map(({ l, p, q }) =>
              h(
                "span",
                h("i", { class: `dot${l.dashed ? " ring" : ""}`, style: { color: l.colour } }),
                `${l.name} ${number(smoothing > 0 && !l.dashed ? p[1] : q[1])}`,
                smoothing > 0 && !l.dashed && h("span", { class: "quiet" }, ` (${number(q[1])})`),
              ),
            ),
          ]
        : lines.map((l) =>
            h(
              "span",
              h("i", { class: `dot${l.dashed ? " ring" : ""}`, style: { color: l.colour } }),
              l.name,
            ),
          ),
    );
    paint();
    onread?.(x);
  }
  const px = (event) => {
    const r = svg.getBoundingClientRect();
    return ((event.clientX - r.left) / r.width) * width;
  };
  const crosshair = (event) => {
    if (!lines.length) return;
    const x = Math.max(PAD.left, Math.min(width - PAD.right, px(event)));
    if (drag) {
      drag.to = x;
      paint();
      return;
    }
    const s = scales(),
      wanted = s.back(x);
    const candidates = lines.map((l) => l.line[nearest(l.line, wanted)][0]);
    read(candidates.sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted))[0]);
  };
  svg.addEventListener("pointermove", crosshair);
  svg.addEventListener("pointerdown", (event) => {
    if (byFinger(event)) crosshair(event);
    else if (event.button === 0) {
      drag = { from: px(event), to: px(event) };
      svg.setPointerCapture(event.pointerId);
    }
  });
  svg.addEventListener("pointerup", () => {
    if (!drag) return;
    const { from, to } = drag;
    drag = null;
    if (Math.abs(to - from) > 8) {
      const s = scales();
      setZoom([s.back(Math.min(from, to)), s.back(Math.max(from, to))]);
    } else paint();
  });
  svg.addEventListener("dblclick", () => setZoom(null));
  svg.addEventListener("pointerleave", (event) => {
    if (!drag && !byFinger(event)) read(null);
  });
  svg.addEventListener("keydown", (event) => {
    if (!lines.length) return;
    const line = lines[0].line,
      now = cross === null ? -1 : nearest(line, cross);
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[
      event.key
    ];
    if (step) {
      event.preventDefault();
      read(line[Math.max(0, Math.min(line.length - 1, now + step))][0]);
      say(reading.textContent);
    }
    const s = scales(),
      middle = cross ?? (s.x0 + s.x1) / 2,
      span = s.x1 - s.x0;
    if (event.key === "+" || event.key === "=") setZoom([middle - span / 4, middle + span / 4]);
    if (event.key === "-" || event.key === "0" || event.key === "Escape") setZoom(null);
  });
  function setZoom(to) {
    range = to;
    onzoom?.(to);
    paint();
  }
  new ResizeObserver(() => {
    if (element.isConnected && Math.abs(element.clientWidth - width) > 1) paint();
  }).observe(element);
  element.update = (next) => {
    ({
      series,
      marks = [],
      log = false,
      smoothing = 0,
      xLabel,
      xKind = "number",
    } = { series, marks, log, smoothing, xLabel, xKind, ...next });
    lines = all();
    read(cross);
  };
  element.zoomOut = () => setZoom(null);
  read(null);
  requestAnimationFrame(draw);
  return element;
}

/** A curve in a few pixels. */
export function sparkline(points, { width = 110, height = 26, colour = "var(--blue)" } = {}) {
  const kept = thin(
    points.filter((p) => Number.isFinite(p[1])),
    60,
  );
  if (!kept.length) return h("svg:svg", { width, height, "aria-hidden": "true" });
  const xs = kept.map((p) => p[0]),
    ys = kept.map((p) => p[1]);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const d = kept
    .map(
      (p, i) =>
        `${i ? "L" : "M"}${(2 + ((width - 4) * (p[0] - x0)) / (x1 - x0 || 1)).toFixed(1)} ${(height - 3 - ((height - 6) * (p[1] - y0)) / (y1 - y0 || 1)).toFixed(1)}`,
    )
    .join("");
  return h(
    "svg:svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", class: "spark" },
    h("svg:path", { d, stroke: colour }),
  );
}
