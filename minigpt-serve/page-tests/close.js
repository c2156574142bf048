import assert from "node:assert/strict";

/** Two lists of numbers, element for element; NaN is close to nothing. */
export function close(got, want, tolerance) {
  const a = [...got].flat(9),
    b = [...want].flat(9);
  assert.equal(a.length, b.length);
  a.forEach((x, i) =>
    assert.ok(Math.abs(x - b[i]) <= tolerance, `element ${i}: ${x} is not ${b[i]}`),
  );
}
