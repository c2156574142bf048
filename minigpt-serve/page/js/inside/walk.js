// What are all the numbers? The pass of the selected token as a document; each step opens to its numbers.
import { h } from '../dom.js';
import { t, lang } from '../i18n.js';
import { inspect } from '../api.js';
import { nameOf } from '../tokens.js';
import { number } from '../numbers.js';
import { tip } from '../parts/tip.js';

const FIRST = 8;

export default async function walk(chosen) {
  const { model, reading, at, layer, head, params, signal } = chosen;
  const found = await inspect('walk', { model: model.id, ids: reading.ids, at, layer, head }, { signal });
  const wanted = params.site;
  const list = h('ol', { class: 'walk' }, found.walk.map(step => card(step, wanted && step.site.includes(wanted))));
  if (wanted) requestAnimationFrame(() => list.querySelector('.wanted')?.scrollIntoView({ block: 'nearest' }));
  return [h('p', { class: 'prose quiet' }, t('walk.lead', { token: nameOf(reading.tokens[at]), position: at, layer, head })), list];
}

function card(step, wanted) {
  const shape = step.tensor_shape.join(' × '), numbers = h('div', { class: 'walk-numbers' }, values(step, FIRST));
  const more = step.values.length > FIRST && h('button', { type: 'button', class: 'plain', onclick: () => { numbers.replaceChildren(values(step, Infinity)); more.remove(); } }, t('walk.all', { n: step.values.length }));
  const norm = step.mean !== undefined && h('p', { class: 'num small' }, t('walk.norm', { mean: number(step.mean), deviation: number(step.deviation) }));
  const before = step.before && h('div', { class: 'small quiet' }, t('walk.before'), ' ', step.before.slice(0, FIRST).map(x => number(x, 3)).join('  '), step.before.length > FIRST ? ' …' : '');
  return h('li', { class: `step${wanted ? ' wanted' : ''}${step.layer === null ? '' : ' inside-block'}` }, h('div', { class: 'row spread' }, h('code', step.site), h('span', { class: 'small quiet num' }, shape)),
    h('p', lang() === 'zh' ? step.text_zh : step.text), h('p', { class: 'mono small' }, step.formula), norm, before, numbers, more);
}

function values(step, most) {
  const width = step.shape.at(-1), many = step.values.length, shown = Math.min(many, most);
  if (shown > 2048) return h('pre', { class: 'num all', tabindex: 0, 'aria-label': t('walk.values') }, step.values.map(x => number(x === null ? -Infinity : x, 3)).join('  '));
  const cells = [];
  for (let i = 0; i < shown; i++) {
    const cell = h('span', { class: 'num', tabindex: i < FIRST ? 0 : -1 }, number(step.values[i] === null ? -Infinity : step.values[i], 3));
    cells.push(tip(cell, () => `[${step.shape.length > 1 ? `${Math.floor(i / width)}, ${i % width}` : i}] = ${step.values[i] === null ? '−∞' : step.values[i]}`));
  }
  return h('div', { class: 'cells' }, cells, many > shown ? h('span', { class: 'quiet' }, '…') : null);
}
