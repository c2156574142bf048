// A sweep of runs for a scaling law: one entry with its pictures.
import { h } from '../dom.js';
import { t } from '../i18n.js';

export function sweep(run) {
  return h('section', { class: 'panel' }, h('h2', run.name), h('p', { class: 'quiet' }, t('sweep.lead')), run.report ? h('pre', { class: 'all' }, run.report) : null, h('div', { class: 'pictures' }, (run.pictures ?? []).map(name => h('figure', h('img', { src: `/v1/runs/${encodeURIComponent(run.name)}/pictures/${encodeURIComponent(name)}`, alt: name, loading: 'lazy' }), h('figcaption', { class: 'small quiet' }, name)))));
}
