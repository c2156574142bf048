// The formulas of a GPT on small arrays, written plainly: what the worked examples of the chapters
// are computed with.

export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
export const transpose = (m) => m[0].map((_, j) => m.map((row) => row[j]));
export const matmul = (a, b) => {
  const t = transpose(b);
  return a.map((row) => t.map((column) => dot(row, column)));
};

/** Softmax of a row; -Infinity becomes 0, a row of nothing else zeros. */
export function softmaxRow(row) {
  const max = Math.max(...row);
  if (max === -Infinity) return row.map(() => 0);
  const e = row.map((x) => Math.exp(x - max));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / sum);
}

/**
 * Every step of attention: raw q·k, scaled, masked, weights, the mix of the values. `hidden(i, j)`
 * hides key j from query i.
 */
export function attention(q, k, v, { hidden = () => false, scale = Math.sqrt(q[0].length) } = {}) {
  const raw = q.map((query) => k.map((key) => dot(query, key)));
  const scaled = raw.map((row) => row.map((x) => x / scale));
  const masked = scaled.map((row, i) => row.map((x, j) => (hidden(i, j) ? -Infinity : x)));
  const weights = masked.map(softmaxRow);
  const output = weights.map((row) =>
    v[0].map((_, c) => row.reduce((sum, a, j) => sum + a * v[j][c], 0)),
  );
  return { raw, scaled, masked, weights, output };
}

export const causal = (i, j) => j > i;

/** Layer norm without its learned scale and shift. */
export function layerNorm(x, epsilon = 0) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((sum, a) => sum + (a - mean) ** 2, 0) / x.length;
  const deviation = Math.sqrt(variance);
  const by = Math.sqrt(variance + epsilon) || 1;
  return { mean, deviation, output: x.map((a) => (a - mean) / by) };
}

/** The error function (W. J. Cody's rational approximations; correct to about 1e-15). */
export function erf(x) {
  const ax = Math.abs(x);
  if (ax < 0.5) {
    const y = x * x;
    const p = [
      3.209377589138469472562e3, 3.774852376853020208137e2, 1.138641541510501556495e2,
      3.161123743870565596947, 1.85777706184603152673e-1,
    ];
    const q = [
      2.844236833439170622273e3, 1.282616526077372275645e3, 2.440246379344441733056e2,
      2.360129095234412093499e1, 1,
    ];
    const poly = (c) => c.reduceRight((sum, a) => sum * y + a, 0);
    return (x * poly(p)) / poly(q);
  }
  const tail = ax < 4 ? erfcMiddle(ax) : erfcFar(ax);
  return Math.sign(x) * (1 - tail);
}

function erfcMiddle(x) {
  const p = [
    1.23033935479799725272e3, 2.05107837782607146532e3, 1.71204761263407058314e3,
    8.81952221241769090411e2, 2.98635138197400131132e2, 6.61191906371416294775e1,
    8.88314979438837594118, 5.6418849698867008918e-1, 2.15311535474403846343e-8,
  ];
  const q = [
    1.23033935480374942043e3, 3.43936767414372163696e3, 4.3626190901432471582e3,
    3.29079923573345962678e3, 1.62138957456669018874e3, 5.37181101862009857509e2,
    1.17693950891312499305e2, 1.57449261107098347253e1, 1,
  ];
  const poly = (c) => c.reduceRight((sum, a) => sum * x + a, 0);
  return (Math.exp(-x * x) * poly(p)) / poly(q);
}

function erfcFar(x) {
  const y = 1 / (x * x);
  const p = [
    6.58749161529837803157e-4, 1.60837851487422766278e-2, 1.25781726111229246204e-1,
    3.60344899949804439429e-1, 3.05326634961232344035e-1, 1.63153871373020978498e-2,
  ];
  const q = [
    2.33520497626869185443e-3, 6.05183413124413191178e-2, 5.27905102951428412248e-1,
    1.87295284992346725209, 2.56852019228982242072, 1,
  ];
  const poly = (c) => c.reduceRight((sum, a) => sum * y + a, 0);
  return (Math.exp(-x * x) / x) * (1 / Math.sqrt(Math.PI) - (y * poly(p)) / poly(q));
}

export const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
export const geluTanh = (x) =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
export const relu = (x) => Math.max(0, x);

/** Sinusoidal positions: row p of width d. */
export const sinusoid = (p, d) =>
  Array.from({ length: d }, (_, j) => {
    const angle = p / 10000 ** ((j - (j % 2)) / d);
    return j % 2 ? Math.cos(angle) : Math.sin(angle);
  });

/** The scaling law L(N, D) = E + A/N^alpha + B/D^beta. */
export const scalingLaw = ({ E, A, B, alpha, beta }, n, d) => E + A * n ** -alpha + B * d ** -beta;

/** The parameters of a GPT by part, of a shape as config.json has it. */
export function countParameters({
  n_layer,
  n_embd,
  vocab_size,
  n_positions,
  biases = true,
  tied = true,
}) {
  const c = n_embd,
    b = biases ? 1 : 0;
  const embeddings = vocab_size * c + n_positions * c;
  const attention = n_layer * (4 * c * c + b * 4 * c);
  const mlp = n_layer * (8 * c * c + b * 5 * c);
  const norms = (2 * n_layer + 1) * (1 + b) * c;
  const head = tied ? 0 : vocab_size * c;
  return {
    embeddings,
    attention,
    mlp,
    norms,
    head,
    total: embeddings + attention + mlp + norms + head,
  };
}

/** Worked examples of the specification. */
export const EXAMPLES = {
  norm: [0.1, 0.3, 98.5, 123.7, 0.2, 201.3],
  head: {
    q: [
      [0.8, 0.6, 0.4, 0.2],
      [0.3, 0.9, 0.5, 0.3],
      [0.4, 0.3, 0.8, 0.6],
    ],
    k: [
      [0.9, 0.7, 0.5, 0.3],
      [0.4, 0.8, 0.6, 0.2],
      [0.5, 0.4, 0.9, 0.7],
    ],
    v: [
      [1.2, 0.8, 0.6, 0.4],
      [0.5, 1.3, 0.7, 0.3],
      [0.6, 0.5, 1.4, 0.9],
    ],
  },
  restaurant: {
    q: [0.9, 0.8],
    k: [
      [0.1, 0.3],
      [0.9, 0.5],
      [0.3, 0.1],
    ],
    v: [
      [0.5, 0.9],
      [0.9, 0.6],
      [0.7, 0.8],
    ],
  },
  gelu: [-2, -1, 0, 1, 2],
  softmax: [1, 2, 3, 4, 5],
};
