// Formulas in MathML, written as small lists; each symbol says what it is when pointed at.
import { h } from '../dom.js';
import { t } from '../i18n.js';
import { tip } from './tip.js';

const symbol = (name, key, variant) => {
  const element = h('m:mi', { class: 'symbol', tabindex: 0, mathvariant: variant }, name);
  return tip(element, () => [h('strong', name), ' ', t(`symbol.${key}`)]);
};
const o = text => h('m:mo', text), n = text => h('m:mn', text), f = text => h('m:mi', { mathvariant: 'normal' }, text);
const row = (...parts) => h('m:mrow', ...parts), frac = (a, b) => h('m:mfrac', row(a), row(b)), root = (...x) => h('m:msqrt', ...x);
const sub = (a, b) => h('m:msub', a, b), sup = (a, b) => h('m:msup', a, b), fence = (...x) => row(o('('), ...x, o(')'));
const s = symbol;

const FORMULAS = {
  embed: () => [sub(s('x', 'x'), s('p', 'p')), o('='), f('wte'), o('['), sub(s('t', 'token'), s('p', 'p')), o(']'), o('+'), f('wpe'), o('['), s('p', 'p'), o(']')],
  qkv: () => [s('q', 'q'), o('='), s('x', 'x'), sub(s('W', 'W'), s('q', 'q')), o(','), h('m:mspace', { width: '0.7em' }), s('k', 'k'), o('='), s('x', 'x'), sub(s('W', 'W'), s('k', 'k')), o(','), h('m:mspace', { width: '0.7em' }), s('v', 'v'), o('='), s('x', 'x'), sub(s('W', 'W'), s('v', 'v'))],
  attention: () => [f('attention'), fence(s('Q', 'Q'), o(','), s('K', 'K'), o(','), s('V', 'V')), o('='), f('softmax'), h('m:mrow', o('('), frac(row(s('Q', 'Q'), sup(s('K', 'K'), s('T', 'transpose'))), root(sub(s('d', 'd'), s('k', 'k')))), o('+'), s('M', 'M'), o(')')), s('V', 'V')],
  softmax: () => [sub(s('a', 'a'), s('i', 'i')), o('='), frac(sup(f('e'), sub(s('s', 's'), s('i', 'i'))), row(h('m:munder', o('∑'), s('j', 'j')), sup(f('e'), sub(s('s', 's'), s('j', 'j')))))],
  temperature: () => [sub(s('p', 'prob'), s('i', 'i')), o('='), frac(sup(f('e'), row(sub(s('l', 'logit'), s('i', 'i')), o('/'), s('T', 'temperature'))), row(h('m:munder', o('∑'), s('j', 'j')), sup(f('e'), row(sub(s('l', 'logit'), s('j', 'j')), o('/'), s('T', 'temperature')))))],
  norm: () => [f('LN'), fence(s('x', 'x')), o('='), frac(row(s('x', 'x'), o('−'), s('μ', 'mu')), root(sup(s('σ', 'sigma'), n('2')), o('+'), s('ε', 'epsilon'))), o('·'), s('g', 'g'), o('+'), s('b', 'b')],
  gelu: () => [f('GELU'), fence(s('x', 'x1')), o('='), s('x', 'x1'), o('·'), s('Φ', 'phi'), fence(s('x', 'x1'))],
  mlp: () => [f('mlp'), fence(s('x', 'x')), o('='), f('GELU'), fence(s('x', 'x'), sub(s('W', 'W'), n('1'))), sub(s('W', 'W'), n('2'))],
  block: () => [h('m:mtable', h('m:mtr', h('m:mtd', row(s('x', 'x'), o('←'), s('x', 'x'), o('+'), f('attn'), fence(sub(f('LN'), n('1')), s('x', 'x'))))), h('m:mtr', h('m:mtd', row(s('x', 'x'), o('←'), s('x', 'x'), o('+'), f('mlp'), fence(sub(f('LN'), n('2')), s('x', 'x'))))))],
  loss: () => [s('L', 'L'), o('='), o('−'), frac(n('1'), s('T', 'T')), h('m:munderover', o('∑'), row(s('t', 't'), o('='), n('1')), s('T', 'T')), f('log'), s('p', 'prob'), fence(sub(s('x', 'token'), s('t', 't')), o('|'), sub(s('x', 'token'), row(o('<'), s('t', 't'))))],
  step: () => [s('w', 'w'), o('←'), s('w', 'w'), o('−'), s('η', 'eta'), frac(row(o('∂'), s('L', 'L')), row(o('∂'), s('w', 'w')))],
  scaling: () => [s('L', 'L'), fence(s('N', 'N'), o(','), s('D', 'D')), o('≈'), s('E', 'E'), o('+'), frac(s('A', 'A'), sup(s('N', 'N'), s('α', 'alpha'))), o('+'), frac(s('B', 'B'), sup(s('D', 'D'), s('β', 'beta')))],
};

/** The names of all formulas. */
export const formulas = Object.keys(FORMULAS);

export function formula(name, block = true) {
  return h('div', { class: 'formula', role: 'group', 'aria-label': t('formula.label') }, h('m:math', { display: block ? 'block' : 'inline' }, h('m:mrow', FORMULAS[name]())));
}
