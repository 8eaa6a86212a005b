// @ts-check
// A partition as a strip of log.

import { ask } from '../lib/api.js';
import { h, href, link, refresh, show } from '../lib/dom.js';
import { bytes, moment, number, plural } from '../lib/format.js';
import { Log } from '../lib/log.js';
import { card, chip, during, facts, recordDetails, showWhole } from '../lib/parts.js';
import { Strip } from '../lib/strip.js';

/** @typedef {import('../lib/types.js').Batch} Batch */

const AGAIN_MS = 1000;
const RECORDS_SHOWN = 100;
/** Where the last stable offset stands still for longer, somebody may want to know. */
const STILL_MS = 5000;

/** @type {import('../lib/types.js').View} */
export const partition = {
  name: 'partition',
  title: 'Log',
  channels: ['topics'],
  mount(root, params, context) {
    if (!params.topic) return choose(root, context);
    const place = { topic: params.topic, partition: Number(params.partition ?? 0) };
    /** @type {{id: string, offset: number}[]} */
    let groups = [];
    let isolation = localStorage.getItem('isolation') ?? 'read_uncommitted';
    /** @type {any[]} as of the last answer about the partition */
    let opened = [];
    // Batches come with bounds that are newer than those of the last answer about the partition: text and picture agree.
    const log = new Log(place, () => { strip.schedule(); if (log.bounds) describe(); });
    const strip = new Strip(log, { select: batch => detail(batch), isolation: () => isolation, groups: () => groups });
    const about = h('div.about', {});
    const into = h('div.detail', {});
    const isolations = h('span.switch', { role: 'radiogroup', 'aria-label': 'What a reader sees' }, ['read_uncommitted', 'read_committed'].map(each =>
      h('button', { role: 'radio', 'aria-checked': String(each === isolation), onclick: (/** @type {Event} */ event) => {
        isolation = each;
        localStorage.setItem('isolation', each);
        isolations.querySelectorAll('button').forEach(button => button.setAttribute('aria-checked', String(button === event.currentTarget)));
        strip.schedule();
      } }, each)));
    const tools = h('span.tools', {},
      h('button', { title: 'To the begin (Home)', onclick: () => { strip.isFollowing = false; strip.go(strip.bounds.log_start); } }, '⇤'),
      h('button', { title: 'To the last stable offset', onclick: () => { strip.isFollowing = false; strip.go(strip.bounds.stable - strip.span / 2); } }, 'LSO'),
      h('button', { title: 'Zoom out (−)', onclick: () => strip.zoom(1 / 1.6) }, '−'),
      h('button', { title: 'Zoom in (+)', onclick: () => strip.zoom(1.6) }, '+'),
      h('button', { title: 'Follow the end (End)', onclick: () => strip.follow() }, '⇥'));
    const jump = h('form.inline', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); strip.isFollowing = false; strip.go(Number(/** @type {HTMLInputElement} */ (jump.firstElementChild).value.replace(/\D/g, '')) - strip.span / 2); } },
      h('input.short', { inputmode: 'numeric', placeholder: 'offset', 'aria-label': 'Go to offset' }));
    const picker = h('select', { 'aria-label': 'Partition', onchange: (/** @type {Event} */ event) => context.go('partition', { topic: place.topic, partition: /** @type {HTMLSelectElement} */ (event.target).value }) });
    root.append(
      h('div.bar', {}, h('h1.mono', {}, place.topic), picker, link('records', { topic: place.topic, partition: place.partition }, 'Records'), link('why', { topic: place.topic, partition: place.partition }, 'Why is it stuck?')),
      h('section.card', {}, h('div.bar', {}, isolations, h('span.grow', {}), jump, tools), strip.element, legend(), about),
      into);
    let isAsking = false;
    let asked = 0;
    let mapped = 0;
    const load = async () => {
      if (isAsking) return;
      isAsking = true;
      asked = Date.now();
      try {
        const found = await ask('partition', place);
        groups = found.groups.sort((/** @type {any} */ a, /** @type {any} */ b) => a.offset - b.offset);
        const isFirst = !log.bounds;
        log.moved(found.bounds);
        if (isFirst) {
          if (params.offset) { strip.isFollowing = false; strip.left = Number(params.offset) - 20; }
          const span = found.bounds.end - found.bounds.log_start;
          strip.scale = Math.max(strip.width / Math.max(60, Math.min(span * 1.2, 160)), 4);
          show(picker, Array.from({ length: Math.min(found.partitions, 2000) }, (_, index) => h('option', { value: index, selected: index === place.partition }, `partition ${index}`)));
        }
        opened = found.open;
        describe();
        if (Date.now() - mapped > 15000) {
          mapped = Date.now();
          ask('overview', { ...place, points: 120 }).then(overview => { strip.map = overview.batches; strip.schedule(); }, () => {});
        }
        log.problem = '';
      } catch (error) {
        log.problem = error instanceof Error ? error.message : String(error);
        if (!log.bounds) show(about, h('p.empty.failed', { role: 'alert' }, log.problem));
      }
      isAsking = false;
      strip.schedule();
    };
    let stood = { at: -1, since: 0 };
    const describe = () => {
      const { log_start, stable, end } = strip.bounds;
      const open = opened.filter(each => each.open_since >= stable); // the others have ended since
      if (stood.at !== stable) stood = { at: stable, since: Date.now() };
      const isStuck = stable < end && Date.now() - stood.since > STILL_MS; // otherwise it is a transaction as any other
      refresh(about, facts([
        ['Offsets', `${number(log_start)} to ${number(end)}`],
        ['Last stable offset', stable < end ? h(isStuck ? 'span.late' : 'span', {}, `${number(stable)}, ${plural(end - stable, 'offset')} before the end`) : `${number(stable)}, the end`],
        ['Open here', open.length ? h('span', {}, open.slice(0, 5).map((/** @type {any} */ each) => h('span.place', {}, each.id ? link('transaction', { id: each.id }, each.id) : `producer ${each.producer}`, h('span.muted', {}, ` from ${number(each.open_since)}`)))) : 'nothing'],
      ]));
    };
    /** @param {Batch|null} batch */
    const detail = batch => {
      if (!batch) return show(into);
      return void during(into, async isLatest => {
        const found = /** @type {import('../lib/types.js').FullBatch} */ (await ask('batch', { ...place, offset: batch.first }));
        if (!isLatest()) return;
        const isMarker = ['commit', 'abort', 'control'].includes(found.outcome);
        show(into, card(isMarker ? `The ${found.outcome} marker at ${number(found.first)}` : `The batch at ${number(found.first)}`,
          facts([
            ['Outcome', chip(found.outcome)],
            ['Offsets', `${number(found.first)} to ${number(found.last)}`],
            ['Records', number(found.count)],
            ['Size', `${bytes(found.bytes)}, ${found.compression === 'none' ? 'not compressed' : found.compression}`],
            ['Time', found.first_ms === found.time_ms ? moment(found.time_ms) : `${moment(found.first_ms)} to ${moment(found.time_ms)}`],
            ['Producer', found.producer === undefined ? 'not idempotent' : `${found.producer}, epoch ${found.epoch}, sequence ${found.sequence}`],
            ['Transactional', found.transactional ? 'yes' : 'no'],
            ['Leader epoch', number(found.leader_epoch)],
            ['CRC-32C', h('span.mono', {}, found.crc)],
          ]),
          found.transactional && !isMarker ? h('p', {}, h('button', { onclick: () => showWhole({ ...place, offset: found.first }) }, 'Show the whole transaction')) : null,
          found.records.slice(0, RECORDS_SHOWN).map(each => h('details.line', {}, h('summary', {}, h('span.mono', {}, number(each.offset)), ' ', h('span.mono.cut', {}, preview(each))), recordDetails(each, place))),
          found.records.length > RECORDS_SHOWN ? h('p', {}, h('a', { href: href('records', { ...place, start: found.first }) }, `All ${number(found.records.length)} records`)) : null));
      });
    };
    load();
    return {
      tick: () => { if (Date.now() - asked > AGAIN_MS) load(); },
      key: event => strip.key(event),
      unmount: () => strip.close(),
    };
  },
};

/** @param {import('../lib/types.js').LogRecord} record */
function preview(record) {
  const side = (/** @type {import('../lib/types.js').Bytes|null} */ found) => (found === null ? '∅' : found.text ?? `${found.size} bytes`);
  return `${side(record.key)}  ${side(record.value)}`.slice(0, 200);
}

const legend = () => h('p.legend', {}, ['committed', 'aborted', 'open', 'undecided', 'plain'].map(each => h('span', {}, h(`i.swatch.${each}`, {}), each === 'undecided' ? 'ended further up' : each)), h('span', {}, h('i.swatch.marker', {}, '◆'), 'marker'), h('span', {}, h('i.swatch.band', {}), 'its transaction'));

/** Which partition? @param {HTMLElement} root @param {import('../lib/types.js').Context} context */
function choose(root, context) {
  const body = h('div', {});
  root.append(body);
  const fill = () => {
    const rows = context.live.rows('topics').filter(row => !row.internal).sort((a, b) => b.held_offsets - a.held_offsets || (b.rate ?? 0) - (a.rate ?? 0));
    if (!context.live.has('topics')) return show(body, h('p.empty.loading', {}, 'Loading …'));
    return show(body, card('A partition as a strip of log', h('p.muted', {}, 'Choose one. Topics with open transactions come first.'),
      rows.length ? h('ul.plainlist', {}, rows.slice(0, 200).map(row => h('li.part', {}, h('span.mono', {}, row.name), h('span.places', {}, Array.from({ length: Math.min(row.partitions, 24) }, (_, index) => h('span.place', {}, link('partition', { topic: row.name, partition: index }, String(index)))), row.partitions > 24 ? link('topics', { name: row.name }, '…') : null)))) : h('p.empty', {}, 'This cluster has no topics.')));
  };
  fill();
  return { update: () => void fill() };
}
