// The smaller pure modules: addresses, numbers, tokens, colours, curves, halves, events.
import { test } from "node:test";
import assert from "node:assert/strict";
import * as address from "../page/js/address.js";
import * as numbers from "../page/js/numbers.js";
import * as tokens from "../page/js/tokens.js";
import * as colour from "../page/js/colour.js";
import * as curves from "../page/js/curves.js";
import * as half from "../page/js/half.js";
import * as events from "../page/js/events.js";
import { close } from "./close.js";

const PLACES = ["chat", "inside", "training", "learn"];

test("an address survives writing and reading, with any text", () => {
  for (const text of ["智利的首都是哪里？<sep>", "a&b=c#d?e/f%", "👩‍🚀 \n\t", ""]) {
    const at = { place: "inside", rest: "", params: { text, layer: "2" } };
    const back = address.parse(address.format(at), PLACES);
    assert.deepEqual(back.params, text ? at.params : { layer: "2" });
  }
  assert.equal(
    address.parse(address.format({ place: "training", rest: "a/b c" }), PLACES).rest,
    "a/b c",
  );
});
test("what is no address is the start", () => {
  for (const hash of [
    "",
    "#",
    "#/nowhere",
    "#/inside/%E0%A4%A?x=%E0%A4%A",
    "javascript:alert(1)",
    null,
  ])
    assert.ok(PLACES.includes(address.parse(hash, PLACES).place));
  assert.equal(address.parse("#/nowhere", PLACES).place, "chat");
});
test("numbers of an address keep within bounds", () => {
  assert.equal(address.whole("3", 0, 5, 9), 3);
  for (const bad of ["6", "-1", "x", "", undefined, "1e0", "1.5"])
    assert.equal(address.whole(bad, 0, 5, 9), 9);
  assert.equal(address.real("0.7", 0, 2, 1), 0.7);
  assert.equal(address.real("", 0, 2, 1), 1);
});

test("numbers read well", () => {
  assert.deepEqual(
    [0, 1.23456, -0.012345, 123456, 1e-9, -Infinity, NaN, null].map((x) => numbers.number(x)),
    ["0", "1.235", "−0.01235", "123456", "1.00e−9", "−∞", "NaN", "–"],
  );
  assert.deepEqual([0, 1, 0.5, 0.012, 0.00012, 1e-9, 0.9999].map(numbers.percent), [
    "0 %",
    "100 %",
    "50.0 %",
    "1.20 %",
    "0.012 %",
    "< 0.001 %",
    "99.990 %",
  ]);
  assert.deepEqual([999, 1000, 1404288, 124439808, 174604259328].map(numbers.short), [
    "999",
    "1k",
    "1.4M",
    "124M",
    "175B",
  ]);
  assert.deepEqual([5, 65, 3725, NaN].map(numbers.duration), ["0:05", "1:05", "1:02:05", "–"]);
  assert.deepEqual([500, 0.25, -2, 20000, 0.0004, 0].map(numbers.tick), [
    "500",
    "0.25",
    "−2",
    "20k",
    "0.0004",
    "0",
  ]);
  assert.equal(numbers.whole(1234567), "1,234,567");
});

test("numbers in narrow cells stay narrow, and tiny surprisals are nothing", () => {
  assert.deepEqual([-25.14, 9.96, 4.02, -0.04, 0, -Infinity].map(numbers.brief), [
    "−25",
    "10",
    "4.0",
    "0.0",
    "0.0",
    "−∞",
  ]);
  assert.deepEqual([0, 0.000174, 0.0123, 13.04].map(numbers.bits), [
    "0.00",
    "0.00",
    "0.0123",
    "13.0",
  ]);
});

test("tokens that are parts of one character are joined", () => {
  const bytes = [...new TextEncoder().encode("a你🚀")].map((b) => ({
    bytes: b.toString(16).padStart(2, "0"),
  }));
  assert.deepEqual(tokens.joined(bytes), [
    { from: 0, to: 1, text: "a" },
    { from: 1, to: 4, text: "你" },
    { from: 4, to: 8, text: "🚀" },
  ]);
});
test("bytes that are no character stay alone and are shown as bytes", () => {
  assert.deepEqual(
    tokens.joined([{ bytes: "ff" }, { bytes: "61" }]).map((g) => g.text),
    ["⟨FF⟩", "a"],
  );
  assert.equal(tokens.joined([{ bytes: "e4" }, { bytes: "bd" }]).length, 2);
});
test("what has no shape gets one, and directions cannot act", () => {
  assert.equal(tokens.visible(" a\n"), "␣a⏎");
  assert.equal(tokens.visible("a b"), "a b");
  assert.equal(tokens.visible("\u202eabc\u0007"), "⟨U+202E⟩abc␇");
  assert.equal(tokens.nameOf({ id: 7 }), "#7");
  assert.equal(tokens.nameOf({ id: 7, token: "<script>" }), "<script>");
});

test("attention colours go from light to dark, small weights show", () => {
  const scale = colour.sequential([255, 255, 255], [43, 108, 176], [20, 40, 80]);
  const brightness = [0, 0.01, 0.1, 0.5, 1].map((x) => colour.luminance(scale(x)));
  for (let i = 1; i < brightness.length; i++) assert.ok(brightness[i] < brightness[i - 1]);
  assert.ok(brightness[0] - brightness[1] > 0.1, "a weight of 1 % can be told from none");
});
test("differences are grey at 0 and full at the ends", () => {
  const scale = colour.diverging([43, 108, 176], [200, 200, 200], [221, 107, 32], 2);
  assert.deepEqual(
    [scale(-2), scale(0), scale(2), scale(9)],
    [
      [43, 108, 176],
      [200, 200, 200],
      [221, 107, 32],
      [221, 107, 32],
    ],
  );
});
test("ink can be read on every paper", () => {
  for (let g = 0; g < 256; g += 5)
    assert.ok(colour.contrast([g, g, g], colour.ink([g, g, g], [0, 0, 0], [255, 255, 255])) >= 4.5);
  assert.deepEqual(colour.parseColour("#2b6cb0"), [43, 108, 176]);
  assert.deepEqual(colour.parseColour(" #fff"), [255, 255, 255]);
});

test("smoothing starts at the first value, keeps a constant, 0 is the raw line", () => {
  const raw = [
    [0, 4],
    [1, 2],
    [2, 2],
  ];
  assert.equal(curves.smooth(raw, 0), raw);
  close(
    curves
      .smooth(
        [
          [0, 3],
          [1, 3],
          [2, 3],
        ],
        0.9,
      )
      .map((p) => p[1]),
    [3, 3, 3],
    1e-12,
  );
  assert.equal(curves.smooth(raw, 0.5)[0][1], 4);
  close([curves.smooth(raw, 0.5)[1][1]], [(0.5 * 0.5 * 4 + 0.5 * 2) / 0.75], 1e-12);
});
test("ticks are round and inside", () => {
  assert.deepEqual(curves.ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(curves.ticks(0.1, 0.5, 4), [0.1, 0.2, 0.3, 0.4, 0.5]);
  assert.deepEqual(curves.ticks(3, 3), [3]);
  assert.deepEqual(curves.logTicks(0.01, 100), [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]);
});
test("thinning keeps peaks and ends", () => {
  const points = Array.from({ length: 10000 }, (_, i) => [i, i === 5003 ? 99 : Math.sin(i)]);
  const thinned = curves.thin(points, 100);
  assert.ok(thinned.length <= 400 && thinned.some((p) => p[1] === 99));
  assert.deepEqual([thinned[0], thinned.at(-1)], [points[0], points.at(-1)]);
});
test("the nearest point", () => {
  const points = [
    [0, 0],
    [10, 0],
    [25, 0],
  ];
  assert.deepEqual(
    [-5, 4, 6, 17, 18, 99].map((x) => curves.nearest(points, x)),
    [0, 0, 1, 1, 2, 2],
  );
  assert.equal(curves.nearest([], 1), -1);
});
test("what differs between configurations", () => {
  assert.deepEqual(
    curves.differing([
      { a: { x: 1, y: [1] }, b: 2 },
      { a: { x: 1, y: [2] }, c: 3 },
    ]),
    ["a.y", "b", "c"],
  );
});

test("half precision", () => {
  const cases = {
    0x0000: 0,
    0x3c00: 1,
    0xc000: -2,
    0x7bff: 65504,
    0x0001: 2 ** -24,
    0x0400: 2 ** -14,
    0x3555: 0.333251953125,
    0x7c00: Infinity,
  };
  for (const [bits, value] of Object.entries(cases))
    assert.equal(half.fromHalf(Number(bits)), value);
  assert.ok(Number.isNaN(half.fromHalf(0x7e00)));
  assert.equal(half.halves()[0x3c00], 1);
  assert.deepEqual(
    [...half.floatsFromBase64(Buffer.from(new Float32Array([1.5, -2]).buffer).toString("base64"))],
    [1.5, -2],
  );
  assert.deepEqual([...half.words(new Uint8Array([0x00, 0x3c]).buffer)], [0x3c00]);
});

test("events come whole however they are cut", () => {
  const stream =
    '\ufeff: hello\r\nevent: a\r\ndata: one\r\ndata: two\r\n\r\ndata:{"x":1}\n\nid: 7\rdata: last\r\rdata: lost';
  for (let cut = 1; cut < 9; cut++) {
    const got = [],
      feed = events.parser((e) => got.push([e.event, e.data]));
    for (let i = 0; i < stream.length; i += cut) feed(stream.slice(i, i + cut));
    assert.deepEqual(got, [
      ["a", "one\ntwo"],
      ["message", '{"x":1}'],
      ["message", "last"],
    ]);
  }
});
test("a lost stream is opened again, a fatal error is not", async () => {
  const stop = new AbortController(),
    states = [],
    waits = [];
  let opened = 0;
  const open = async () => {
    opened++;
    if (opened === 1 || opened === 2) throw new Error("no server");
    if (opened === 4) stop.abort();
    return new Response("data: x\n\n");
  };
  const got = [];
  await events.listen({
    open,
    emit: (e) => got.push(e.data),
    state: (s) => states.push(s),
    signal: stop.signal,
    wait: async (ms) => {
      waits.push(ms);
    },
  });
  assert.deepEqual(got, ["x", "x"]);
  assert.deepEqual(states, ["lost", "lost", "open", "lost", "open"]);
  assert.deepEqual(waits, [500, 1000, 500]);
  const fatal = async () => {
    throw Object.assign(new Error("no key"), { fatal: true });
  };
  await assert.rejects(
    events.listen({ open: fatal, emit() {}, state() {}, signal: new AbortController().signal }),
    /no key/,
  );
});
