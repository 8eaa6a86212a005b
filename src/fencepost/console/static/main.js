// @ts-check
// The frame around the views: which one is shown, its live channels, the state of the connection, keys and themes.

import { ask, setSecret } from './lib/api.js';
import { byId, h, href, show } from './lib/dom.js';
import { span } from './lib/format.js';
import { Live } from './lib/live.js';
import { closeDrawer } from './lib/parts.js';
import { groups } from './views/groups.js';
import { partition } from './views/partition.js';
import { pipelines } from './views/pipelines.js';
import { records } from './views/records.js';
import { topics } from './views/topics.js';
import { transaction } from './views/transaction.js';
import { transactions } from './views/transactions.js';
import { why } from './views/why.js';

/** @typedef {import('./lib/types.js').View} View */

/** @type {View[]} */
const VIEWS = [transactions, transaction, why, partition, records, groups, pipelines, topics];
const live = new Live();
/** @type {import('./lib/types.js').Mounted} */
let mounted = {};
/** @type {View} */
let view = transactions;
/** @type {string|null} */
let shownAt = null;
/** @type {Set<string>} */
const changed = new Set();
let isScheduled = false;

/** @type {import('./lib/types.js').Context} */
const context = {
  live,
  session: { change_secret: '', may_change: false, cluster: '', has_login: false, version: '', now_ms: 0 },
  go: (path, params = {}) => { location.hash = href(path, params); },
};

function route() {
  const [path, query] = location.hash.replace(/^#\//, '').split('?');
  const next = VIEWS.find(each => each.name === path) ?? transactions;
  const params = Object.fromEntries(new URLSearchParams(query ?? ''));
  if (location.hash === shownAt) return;
  shownAt = location.hash;
  mounted.unmount?.();
  closeDrawer();
  document.querySelectorAll('dialog').forEach(each => each.close());
  view = next;
  document.title = `${view.title} · fencepost`;
  const content = byId('content');
  show(content);
  content.dataset.view = view.name;
  window.scrollTo(0, 0);
  live.watch(view.channels);
  mounted = view.mount(content, params, context);
  drawNav();
  drawState();
}

function drawNav() {
  const current = view.name === 'transaction' ? 'transactions' : view.name;
  show(byId('nav'), VIEWS.filter(each => !each.hidden).map((each, index) =>
    h('a', { href: href(each.name), 'aria-current': each.name === current ? 'page' : null, title: `${each.title} (${index + 1})` }, each.title)));
  document.querySelector('#nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
}

/** Whether the next answer is overdue: a question is asked every three seconds, or as often as it takes a tenth of the time. @param {import('./lib/types.js').Health} health */
const isLate = health => live.now - (health.good_ms ?? 0) > 5000 + 12 * (health.took_ms ?? 0);

/** What is wrong, if anything, and how old what is shown is. */
function drawState() {
  const state = byId('state'), banner = byId('banner');
  let text = 'live', kind = 'good', problem = '';
  if (live.isLost) {
    [text, kind] = ['disconnected', 'bad'];
    problem = 'The console does not answer. What you see is from before; it reconnects by itself.';
  } else {
    for (const channel of view.channels) {
      const health = live.health(channel);
      if (!health || health.condition === 'loading') [text, kind] = kind === 'good' ? ['loading', 'wait'] : [text, kind];
      else if (health.condition === 'failing') {
        [text, kind] = [health.good_ms ? `stale, ${span(live.now - health.good_ms)} old` : 'no answer', 'bad'];
        problem = health.problem;
      } else if (kind === 'good' && isLate(health)) [text, kind] = [`waiting, ${span(live.now - Number(health.good_ms))} old`, 'wait'];
    }
  }
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
  document.body.classList.toggle('stale', kind === 'bad');
  banner.hidden = !problem;
  if (banner.textContent !== problem) banner.textContent = problem;
}

/** @param {string} channel */
live.changed = channel => {
  changed.add(channel);
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const began = performance.now();
    const channels = [...changed];
    changed.clear();
    for (const each of channels) mounted.update?.(each);
    drawState();
    performance.measure('update', { start: began });
  });
};
// Nobody reads these beyond a look in the profiler: keep few.
setInterval(() => { if (performance.getEntriesByType('measure').length > 500) performance.clearMeasures(); }, 10000);
setInterval(() => { drawState(); if (!document.hidden) mounted.tick?.(); }, 1000);

/** @param {string|null} theme */
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

function switchTheme() {
  const isDark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const next = isDark ? 'light' : 'dark';
  localStorage.setItem('theme', next);
  setTheme(next);
  mounted.tick?.();
}

function showKeys() {
  const rows = [
    ['1 … 7', 'go to a view'], ['/', 'search or filter'], ['↑ ↓ Enter', 'move in a table, open a row'], ['← → + −', 'move and zoom in a log'],
    ['[ ]', 'the batch before or after'], ['Home End', 'begin and end of a log'], ['t', 'light or dark'], ['Esc', 'close a panel'], ['?', 'this help'],
  ];
  const dialog = /** @type {HTMLDialogElement} */ (h('dialog.keys', { 'aria-label': 'Keyboard' }, h('h2', {}, 'Keyboard'),
    h('dl.facts', {}, rows.flatMap(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])),
    h('p.buttons', {}, h('button.primary', { autofocus: true, onclick: () => dialog.close() }, 'Close')),
    h('p.muted', {}, `fencepost ${context.session.version}`)));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener('keydown', event => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) {
    if (event.key === 'Escape') target.blur();
    return;
  }
  const shown = VIEWS.filter(each => !each.hidden);
  if (event.key >= '1' && event.key <= String(shown.length)) context.go(shown[Number(event.key) - 1].name);
  else if (event.key === 't') switchTheme();
  else if (event.key === '?') showKeys();
  else if (event.key === 'Escape') closeDrawer();
  else if (event.key === '/') {
    const search = /** @type {HTMLElement|null} */ (document.querySelector('input[type=search]'));
    search?.focus();
    if (search) event.preventDefault();
  } else if (!mounted.key?.(event)) return;
});

setTheme(localStorage.getItem('theme'));
byId('theme').addEventListener('click', switchTheme);
byId('keys').addEventListener('click', showKeys);
addEventListener('hashchange', route);

async function renew() {
  context.session = await ask('session');
  setSecret(context.session.change_secret);
  byId('cluster').textContent = context.session.cluster;
}
live.returned = () => { renew().catch(() => {}); };

try {
  await renew();
} catch (error) {
  byId('banner').hidden = false;
  byId('banner').textContent = error instanceof Error ? error.message : String(error);
}
route();
performance.mark('shown');
