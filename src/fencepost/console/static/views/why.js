// @ts-check
// Why a reader stands still: the answer of `fencepost tx why`, as a picture.

import { ask } from '../lib/api.js';
import { h, link, refresh, show } from '../lib/dom.js';
import { atMost, number, plural, span } from '../lib/format.js';
import { card, confirmAbort, during, facts, placeLink } from '../lib/parts.js';

/** @typedef {import('../lib/types.js').Explanation} Explanation */
/** @typedef {import('../lib/types.js').Hold} Hold */

const AGAIN_MS = 4000;
const SHOWN = 20;
const YOUNG_MS = 5000;

/** @type {import('../lib/types.js').View} */
export const why = {
  name: 'why',
  title: 'Why is it stuck?',
  channels: ['topics'],
  mount(root, params, context) {
    const body = h('div', {});
    const topic = /** @type {HTMLInputElement} */ (h('input', { type: 'search', list: 'topics', placeholder: 'all topics', value: params.topic ?? '', 'aria-label': 'Topic' }));
    const index = /** @type {HTMLInputElement} */ (h('input.short', { inputmode: 'numeric', placeholder: 'all', value: params.partition ?? '', 'aria-label': 'Partition' }));
    const list = h('datalist', { id: 'topics' });
    const form = h('form.bar', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); context.go('why', { topic: topic.value, partition: index.value }); } },
      h('label', {}, 'Topic ', topic), h('label', {}, 'Partition ', index), h('button.primary', {}, 'Ask'), list);
    root.append(form, body);
    let asked = 0;
    let isAsking = false;
    const load = async () => {
      if (isAsking) return;
      isAsking = true;
      asked = Date.now();
      await during(body, async () => draw(await ask('why', { topic: params.topic, partition: params.partition })));
      isAsking = false;
    };
    /** @param {Explanation} found */
    const draw = found => {
      // Somebody always has a transaction open for a moment: that is no news.
      const isYoung = (/** @type {Hold} */ each) => each.cause !== 'hanging' && each.cause !== 'overdue' && each.since_ms !== null && found.now_ms - each.since_ms < YOUNG_MS;
      const holds = found.holds.filter(each => !isYoung(each)).sort((a, b) => Number(b.cause === 'hanging') - Number(a.cause === 'hanging') || (a.since_ms ?? 0) - (b.since_ms ?? 0));
      const young = found.holds.length - holds.length;
      const isFree = found.verdict === 'clear' || (found.verdict === 'held' && !holds.length);
      const text = !young || found.verdict !== 'held' ? found.headline : holds.length ? headline(holds, found)
        : `Nothing is stuck. ${plural(young, 'transaction')} ${young === 1 ? 'has' : 'have'} been open for less than ${YOUNG_MS / 1000} s, as it should be.`;
      refresh(body,
        h(`div.verdict.${isFree ? 'good' : 'held'}`, { role: 'status' }, h('span.mark', { 'aria-hidden': 'true' }, isFree ? '✓' : '!'), h('p', {}, text)),
        holds.slice(0, SHOWN).map(each => picture(each, found)),
        holds.length > SHOWN ? h('p.muted', {}, `and ${plural(holds.length - SHOWN, 'more transaction')}`) : null,
        holds.length && young ? h('p.muted', {}, `${plural(young, 'other transaction')} ${young === 1 ? 'has' : 'have'} been open for less than ${YOUNG_MS / 1000} s, as it should be.`) : null,
        found.stopped.length ? card('Partitions that do not serve', h('ul', {}, found.stopped.map(each => h('li', {}, placeLink(each), `: ${each.trouble}. ${each.text}`)))) : null,
        found.readers.length ? card('Readers', h('ul.plainlist', {}, found.readers.map(each => h('li.part', {},
          h('span', {}, link('groups', { id: each.group }, each.group), ' ', h(each.waiting ? 'span.late' : 'span.muted', {}, each.place)),
          h('span.muted', {}, each.misses ? `misses ${atMost(each.misses, each.exact)} record${each.misses === 1 ? '' : 's'}` : `lag ${atMost(each.lag, each.lag_exact)}`))))) : card('Readers', h('p.empty', {}, 'No group has a committed offset here.')),
        found.missing.length ? h('p.warn', {}, `Could not be asked: ${found.missing.join('; ')}`) : null);
    };
    /** Like the server's, but only of these. @param {Hold[]} holds @param {Explanation} found */
    const headline = (holds, found) => {
      const held = [...new Map(holds.flatMap(hold => hold.partitions).map(each => [`${each.topic}-${each.partition}`, each.stable]))];
      const waiting = atMost(holds.reduce((sum, hold) => sum + hold.waiting, 0), holds.every(hold => hold.exact));
      const where = held.length === 1 ? `${held[0][0]} is HELD: read_committed readers stop at offset ${number(held[0][1])}` : `${number(held.length)} of ${plural(found.partitions, 'partition')} are HELD: read_committed readers stop there`;
      return `${where}, ${waiting} committed records behind it`;
    };
    /** @param {Hold} hold @param {Explanation} found */
    const picture = (hold, found) => {
      const shown = hold.partitions.slice(0, 6);
      return h('section.card.hold', {},
        h('p.what', {}, hold.what),
        facts([
          ['Transactional id', hold.transaction ? link('transaction', { id: hold.transaction.id }, hold.transaction.id) : null],
          ['Producer', hold.producer === null ? null : `${hold.producer}, epoch ${hold.epoch}`],
          ['Client', hold.client],
          ['Pipeline', hold.transaction?.pipeline ? link('pipelines', { name: hold.transaction.pipeline }, hold.transaction.pipeline) : null],
          ['Open for', hold.since_ms ? span(found.now_ms - hold.since_ms) : null],
          ['Ends', hold.ends],
        ]),
        shown.map(each => strip(each, found)),
        hold.partitions.length > shown.length ? h('p.muted', {}, `and ${plural(hold.partitions.length - shown.length, 'more partition')}`) : null,
        h('p', {}, ['open', 'overdue', 'hanging'].includes(hold.cause) && hold.partitions[0] ? h('button.danger', { onclick: () => confirmAbort(hold.transaction && hold.cause !== 'hanging' ? { id: hold.transaction.id } : { topic: hold.partitions[0].topic, partition: hold.partitions[0].partition }, context) }, 'Abort …') : null));
    };
    /** The log before and behind the last stable offset, and who stands there. @param {Hold['partitions'][number]} held @param {Explanation} found */
    const strip = (held, found) => {
      const readers = found.readers.flatMap(reader => reader.lags.filter(lag => lag.topic === held.topic && lag.partition === held.partition && lag.committed !== null).map(lag => ({ name: reader.group, at: Number(lag.committed) })));
      const here = readers.filter(each => each.at === held.stable).map(each => each.name);
      const behind = readers.filter(each => each.at < held.stable).map(each => each.name);
      const beyond = readers.filter(each => each.at > held.stable).map(each => each.name);
      const names = (/** @type {string[]} */ all) => (all.length > 3 ? `${all.slice(0, 3).join(', ')} +${all.length - 3}` : all.join(', '));
      return h('figure.stuck', { 'aria-label': `${held.topic}-${held.partition}: read up to ${held.stable} of ${held.end}` },
        h('figcaption', {}, placeLink(held)),
        h('div.stuck-log', {},
          h('div.read', {}, h('span', {}, 'every reader gets this')),
          h('div.gate', { title: `last stable offset ${held.stable}` }),
          h('div.first', { title: 'the first record of the open transaction' }),
          h('div.waiting', {}, h('span', {}, held.waiting === null ? `${number(held.end - held.stable)} offsets wait` : `${plural(held.waiting, 'record')} wait${held.waiting === 1 ? 's' : ''}, ${number(held.undecided)} undecided`))),
        h('div.stuck-scale', {}, h('span', {}, number(held.log_start)), h('span.at', {}, `last stable offset ${number(held.stable)}`), h('span', {}, `end ${number(held.end)}`)),
        h('div.stuck-readers', {}, behind.length ? h('span.pin.left', {}, `${names(behind)} on the way`) : h('span', {}), here.length ? h('span.pin.mid', {}, `${names(here)} wait${here.length === 1 ? 's' : ''} here`) : h('span', {}), beyond.length ? h('span.pin.right', {}, `${names(beyond)} (uncommitted)`) : h('span', {})));
    };
    const fill = () => show(list, live().map(row => h('option', { value: row.name })));
    const live = () => context.live.rows('topics').filter(row => !row.internal).slice(0, 2000);
    fill();
    load();
    return {
      update: () => fill(),
      tick: () => { if (Date.now() - asked > AGAIN_MS && !document.querySelector('dialog[open]')) load(); },
    };
  },
};
