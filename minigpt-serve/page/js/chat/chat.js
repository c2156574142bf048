// Chat: turns in a column, answers that stream; every token with its probability and the next best. A second model beside it.
import { h, fill, say, perFrame } from '../dom.js';
import { t } from '../i18n.js';
import { link } from '../router.js';
import { short } from '../numbers.js';
import { empty } from '../parts/message.js';
import { questions } from '../inside/examples.js';
import { turnView } from './turn.js';
import { answer } from './answer.js';
import { drawer } from './drawer.js';
import { settingsOf } from '../inside/next.js';

/** What was said, by model; kept while the page is open. */
const kept = new Map();
const talk = (model, side) => { const name = `${side} ${model}`; if (!kept.has(name)) kept.set(name, []); return kept.get(name); };

export function mount(root, ctx) {
  if (!ctx.model) { root.append(h('h1', t('chat.title')), empty(t('empty.model'), 'minigpt demo')); return {}; }
  const columns = h('div', { class: 'columns' }), box = h('textarea', { rows: 2, placeholder: t('chat.placeholder'), 'aria-label': t('chat.placeholder'), dir: 'auto' });
  const send = h('button', { type: 'submit', class: 'primary' }, t('chat.send')), halt = h('button', { type: 'button', hidden: true }, t('chat.stop'));
  const panel = drawer(), form = h('form', { class: 'ask' }, box, h('div', { class: 'row spread' }, h('span', { class: 'row' }, panel.toggle, beside()), h('span', { class: 'row' }, halt, send)));
  root.append(h('div', { class: 'row spread' }, h('h1', t('chat.title')), h('a', { class: 'small', href: link('learn', {}, '7') }, t('chapter.link', { n: 7 }))), panel.element, columns, form);
  let running = null;

  function beside() {
    if (ctx.models.length < 2) return null;
    return h('label', { class: 'row small' }, t('chat.beside'), h('select', { onchange: event => ctx.change({ beside: event.target.value || null }) }, h('option', { value: '' }, t('chat.nobody')), ctx.models.filter(m => m.id !== ctx.model.id).map(m => h('option', { value: m.id, selected: ctx.params.beside === m.id }, `${m.id} (${short(m.parameters)})`))));
  }
  const sides = () => [ctx.model, ctx.models.find(m => m.id === ctx.params.beside && m.id !== ctx.model.id)].filter(Boolean);

  function draw() {
    const shown = sides();
    fill(columns, shown.map((model, side) => {
      const turns = talk(model.id, side);
      return h('section', { class: 'column', 'aria-label': model.id }, shown.length > 1 && h('h2', model.id),
        turns.length ? turns.map((turn, i) => turnView(turn, { model, last: i === turns.length - 1, busy: Boolean(running), retry: () => again(i), edit: text => again(i, text) }))
          : h('div', { class: 'empty' }, h('p', t('chat.empty')), h('div', { class: 'row center' }, questions().map(question => h('button', { type: 'button', onclick: () => ask(question) }, question)))));
    }));
    halt.hidden = !running;
    send.disabled = Boolean(running);
  }

  /** Asks all models that are shown, each with its own history. */
  async function ask(question) {
    if (running || !question.trim()) return;
    const stop = running = new AbortController();
    const settings = panel.settings();
    const jobs = sides().map((model, side) => {
      const turns = talk(model.id, side), turn = { question, tokens: [], text: '', state: 'writing' };
      turns.push(turn);
      return { model, turns, turn };
    });
    draw();
    await Promise.all(jobs.map(async ({ model, turns, turn }) => {
      const view = () => columns.querySelectorAll('.column')[sides().indexOf(model)]?.querySelector('.turn:last-of-type');
      await answer({ model, turns, turn, settings, signal: stop.signal, changed: perFrame(() => view()?.refresh?.()) });
    }));
    running = null;
    draw();
    panel.look(jobs[0]);
    say(jobs.map(job => job.turn.text).join(' '));
  }
  /** Forgets from a turn on and asks again, perhaps something else. */
  function again(index, question) {
    const wanted = question ?? talk(ctx.model.id, 0)[index]?.question;
    sides().forEach((model, side) => talk(model.id, side).splice(index));
    ask(wanted);
  }
  form.addEventListener('submit', event => { event.preventDefault(); const text = box.value; if (running || !text.trim()) return; box.value = ''; ask(text); });
  box.addEventListener('keydown', event => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); } });
  halt.addEventListener('click', () => running?.abort());
  ctx.signal.addEventListener('abort', () => running?.abort());
  const update = next => { ctx = next; panel.put(settingsOf(ctx.params), ctx); draw(); };
  update(ctx);
  return { update, unmount: () => running?.abort() };
}
