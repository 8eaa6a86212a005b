// @ts-check
// Pieces that several views share: states, chips, panels, records, and the dialog before a change.

import { ask, change } from './api.js';
import { h, href, link, show } from './dom.js';
import { atMost, bytes, moment, number, plural, pretty, span, text } from './format.js';

/** @typedef {import('./types.js').Context} Context */

/** @param {string} outcome */
export const chip = outcome => h(`span.chip.${/^[a-z]+$/.test(outcome) ? outcome : 'plain'}`, {}, outcome);

const STATES = /** @type {Record<string, string>} */ ({ Ongoing: 'open', PrepareCommit: 'open', PrepareAbort: 'open', CompleteCommit: 'committed', CompleteAbort: 'aborted' });
const WORDS = /** @type {Record<string, string>} */ ({ Ongoing: 'open', PrepareCommit: 'committing', PrepareAbort: 'aborting', CompleteCommit: 'committed', CompleteAbort: 'aborted', Empty: 'idle' });

/** A transaction's state, in a word. @param {string} state */
export const stateChip = state => h(`span.chip.${STATES[state] ?? 'plain'}`, { title: state }, WORDS[state] ?? state);

/** @param {string} title @param {...(import('./dom.js').Child|import('./dom.js').Child[])} children */
export const card = (title, ...children) => h('section.card', {}, h('h2', {}, title), ...children);

/** @param {string} label @param {import('./dom.js').Child} value @param {string} [note] */
export const figure = (label, value, note) => h('div.figure', {}, h('span.label', {}, label), h('b', {}, value), note ? h('span.muted', {}, note) : null);

/** @param {[string, import('./dom.js').Child][]} pairs */
export const facts = pairs => h('dl.facts', {}, pairs.filter(([, value]) => value !== null && value !== undefined).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

/** @param {import('./types.js').Place} place */
export const placeLink = place => link('partition', { topic: place.topic, partition: place.partition }, `${place.topic}-${place.partition}`);

/** How many questions were asked for an element. @type {WeakMap<Element, number>} */
const questions = new WeakMap();

/**
 * Runs a question and shows its state meanwhile. Answers may come in another order than they were asked for, so `work`
 * asks `isLatest` before it shows one: an old answer must not replace a newer one.
 * @param {Element} root @param {(isLatest: () => boolean) => Promise<void>} work
 */
export async function during(root, work) {
  const asked = (questions.get(root) ?? 0) + 1;
  const isLatest = () => questions.get(root) === asked;
  questions.set(root, asked);
  root.setAttribute('aria-busy', 'true');
  if (!root.childElementCount) show(root, h('p.empty.loading', {}, 'Loading …'));
  try {
    await work(isLatest);
  } catch (error) {
    if (!isLatest() || (error instanceof DOMException && error.name === 'AbortError')) return;
    show(root, h('p.empty.failed', { role: 'alert' }, error instanceof Error ? error.message : String(error)), h('p.center', {}, h('button', { onclick: () => during(root, work) }, 'Try again')));
  } finally {
    if (isLatest()) root.removeAttribute('aria-busy');
  }
}

/** A panel at the side, closed with Escape. @param {string} title */
export function drawer(title) {
  closeDrawer();
  const before = document.activeElement;
  const body = h('div.drawer-body', {});
  const close = () => { panel.remove(); if (before instanceof HTMLElement) before.focus(); };
  const panel = h('aside.drawer', { role: 'dialog', 'aria-label': title, tabindex: -1, onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') { event.stopPropagation(); close(); } } },
    h('header', {}, h('h2', {}, title), h('button.quiet', { 'aria-label': 'Close', title: 'Close (Esc)', onclick: close }, '✕')), body);
  document.body.append(panel);
  panel.focus();
  return body;
}

export function closeDrawer() { document.querySelectorAll('.drawer').forEach(each => each.remove()); }

/**
 * A record as a line that opens.
 * @param {import('./types.js').LogRecord} record
 * @param {import('./types.js').Place} place
 */
export function recordDetails(record, place) {
  const isTransactional = record.outcome !== 'plain';
  const headers = record.headers.length ? h('div', {}, h('h4', {}, 'Headers'), h('dl.facts.mono', {}, record.headers.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, text(value))]))) : null;
  return h('div.record', {},
    facts([
      ['Offset', number(record.offset)],
      ['Time', moment(record.time_ms)],
      ['Outcome', chip(record.outcome)],
      ['Producer', isTransactional ? `${record.producer}, epoch ${record.epoch}` : null],
      ['Marker', record.ends_at ? `at offset ${number(record.ends_at)}` : null],
    ]),
    h('h4', {}, 'Key ', sizeOf(record.key)), h('pre.mono', {}, pretty(record.key)),
    h('h4', {}, 'Value ', sizeOf(record.value)), h('pre.mono', {}, pretty(record.value)),
    headers,
    isTransactional ? h('p', {}, h('button', { onclick: () => showWhole({ topic: place.topic, partition: place.partition, offset: record.offset }) }, 'Show the whole transaction')) : null);
}

/** @param {import('./types.js').Bytes|null} found */
const sizeOf = found => h('span.muted', {}, found === null ? 'null' : `${bytes(found.size)}${found.base64 !== undefined ? ', binary' : ''}${found.cut ? '; here is its beginning, the download has all of it' : ''}`);

/** Everything that a transaction wrote, wherever. @param {Record<string, string|number>} of */
export function showWhole(of) {
  const body = drawer('The whole transaction');
  during(body, async () => {
    const found = await ask('whole', of);
    const story = /** @type {import('./types.js').Story|null} */ (found.story);
    const parts = /** @type {import('./types.js').Part[]} */ (found.parts);
    const commits = parts.flatMap(each => each.commits);
    show(body,
      story ? storyPicture(story) : h('p.muted', {}, 'The coordinators’ log does not have it any more. These are the partitions that still remember its producer.'),
      facts([
        ['Transactional id', story ? link('transaction', { id: story.id }, story.id) : null],
        ['Producer', String(found.producer)],
        ['Took', story ? span(story.duration_ms) : null],
        ['Records', number(parts.filter(each => !each.commits.length).reduce((sum, each) => sum + each.records, 0))],
      ]),
      h('h3', {}, `Wrote to ${plural(parts.length, 'partition')}`),
      h('ul.plainlist', {}, parts.map(each => h('li.part', {},
        h('span', {}, placeLink(each), ' ', each.outcome ? chip(each.outcome) : null),
        each.problem ? h('span.muted', {}, each.problem) : h('span.muted', {}, `${plural(each.records, 'record')} at `,
          h('a', { href: href('records', { topic: each.topic, partition: each.partition, start: each.first, producer: found.producer }) }, `${number(each.first)} – ${number(each.last)}`), `, ${bytes(each.bytes)}`)))),
      commits.length ? h('h3', {}, 'Offsets that it committed') : null,
      commits.length ? h('ul.plainlist', {}, commits.map(each => h('li.part', {}, h('span', {}, link('groups', { id: each.group }, each.group)), h('span.muted', {}, `${each.topic}-${each.partition} → ${number(each.offset)}`)))) : null);
  });
}

/** Begin, partitions, decision, markers: to scale. @param {import('./types.js').Story} story */
export function storyPicture(story, now = Date.now()) {
  const steps = story.steps ?? [];
  const end = story.ended_ms ?? now;
  const total = Math.max(1, end - story.start_ms);
  const at = (/** @type {number} */ time) => `${Math.min(100, (Math.max(0, time - story.start_ms) / total) * 100).toFixed(2)}%`;
  const decided = story.decided_ms ?? end;
  const kind = story.ending ?? 'open';
  return h('div.story', {},
    h('div.story-bar', {},
      h(`span.written.${kind}`, { style: { left: '0%', width: at(decided) } }),
      story.decided_ms ? h(`span.marking.${kind}`, { style: { left: at(decided), width: `calc(100% - ${at(decided)})` } }) : null,
      steps.map(each => h('span.tick', { style: { left: at(each.time_ms) }, title: `${each.state} at ${moment(each.time_ms)}` }))),
    h('ol.steps', {}, steps.map(each => h('li', {}, h('b', {}, stepWords(each)), h('span.muted', {}, ` +${span(each.time_ms - story.start_ms)} · ${moment(each.time_ms)}`)))));
}

/** @param {{state: string, partitions: number}} step */
function stepWords(step) {
  if (step.state === 'Ongoing') return `open with ${plural(step.partitions, 'partition')}`;
  if (step.state.startsWith('Prepare')) return `${step.state === 'PrepareCommit' ? 'commit' : 'abort'} decided, markers go to ${plural(step.partitions, 'partition')}`;
  return step.state === 'CompleteCommit' ? 'committed: every partition has its marker' : step.state === 'CompleteAbort' ? 'aborted: every partition has its marker' : step.state;
}

/**
 * Says what an abort undoes, asks, does it, and shows the proof.
 * @param {Record<string, string|number>} of id, or topic, partition and offset
 * @param {Context} context
 */
export function confirmAbort(of, context) {
  const dialog = /** @type {HTMLDialogElement} */ (h('dialog.confirm', { 'aria-label': 'Abort a transaction' }));
  const body = h('div', {});
  const title = h('h2', {}, 'Abort this transaction?');
  dialog.append(title, body);
  document.body.append(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.showModal();
  const cancel = () => h('button', { onclick: () => dialog.close(), autofocus: true }, 'Cancel');
  during(body, async () => {
    const plan = /** @type {import('./types.js').Plan} */ (await ask('abort/plan', of));
    const undone = plan.undone.map(each => h('li', {}, placeLink(each), `: ${each.records === null ? 'records' : `${atMost(each.records, each.exact)} record${each.records === 1 ? '' : 's'}`} ${each.last === each.first ? 'at offset' : 'from offset'} ${number(each.first)}${each.last === null || each.last === each.first ? '' : ` to ${number(each.last)}`}`));
    const doIt = h('button.danger', { disabled: Boolean(plan.refusal) || !context.session.may_change, onclick: () => run(plan) }, 'Abort it');
    show(body,
      h('p', {}, plan.way === 'markers'
        ? `Producer ${plan.producer} left it hanging: no coordinator will ever end it. An abort marker is written to its partitions.`
        : `Its transactional id ${plan.id} is taken from its producer, and the coordinator aborts it. The producer is fenced: it fails with its next request.`),
      plan.live && !plan.refusal ? h('p.warn', {}, 'It is alive: its producer may still commit it.') : null,
      h('p', {}, 'This undoes, for every read_committed reader:'),
      h('ul', {}, undone.length ? undone : h('li.muted', {}, 'no records: nothing was written yet')),
      plan.has_offsets ? h('p', {}, 'Offsets of groups are part of it: they are not committed, so their records are read again.') : null,
      plan.refusal ? h('p.warn', { role: 'alert' }, plan.refusal) : null,
      context.session.may_change ? null : h('p.warn', {}, 'This console only looks. Start it with --allow-changes, or run: fencepost tx abort'),
      h('p.buttons', {}, cancel(), doIt));
  });
  /** @param {import('./types.js').Plan} plan */
  const run = plan => during(body, async () => {
    show(body, h('p.empty.loading', {}, 'Aborting, and waiting until the last stable offset moves …'));
    const done = await change('abort', { ...of, producer: plan.producer, epoch: plan.epoch, even_if_live: true });
    title.textContent = 'Aborted';
    show(body,
      h('p', {}, done.proven ? '✓ It is aborted, and readers go on.' : 'It was aborted, but the last stable offset has not moved everywhere yet.'),
      h('ul', {}, done.freed.map((/** @type {any} */ each) => h('li', {}, placeLink(each), `: last stable offset ${number(each.before)} → ${number(each.after)}`))),
      h('p.buttons', {}, h('button.primary', { onclick: () => dialog.close() }, 'Close')));
  });
}
