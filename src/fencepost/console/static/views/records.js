// @ts-check
// The records of a partition, each with its outcome: from an offset or a time on, filtered, with download.

import { ask, query } from '../lib/api.js';
import { h, link, show } from '../lib/dom.js';
import { moment, number, text } from '../lib/format.js';
import { chip, drawer, during, recordDetails } from '../lib/parts.js';
import { Table } from '../lib/table.js';

/** @typedef {import('../lib/types.js').LogRecord} LogRecord */

const PAGE = 200;
const EARLIER = 500; // offsets, so at most as many records
const DOWNLOADED = 10_000;
const KEPT = 5000;

/** @type {import('../lib/types.js').View} */
export const records = {
  name: 'records',
  title: 'Records',
  channels: ['topics'],
  mount(root, params, context) {
    const options = h('datalist', { id: 'topics' });
    const topic = input('search', 'topic', params.topic ?? '', 'Topic');
    topic.setAttribute('list', 'topics');
    const index = input('text', '0', params.partition ?? '0', 'Partition', 'short');
    const start = input('text', 'the end', params.start ?? '', 'From offset', 'short');
    const time = input('datetime-local', '', params.time ?? '', 'From time');
    time.step = '1';
    start.oninput = () => { time.value = ''; };
    time.oninput = () => { start.value = ''; };
    const filter = input('search', 'text in key, value or headers', params.filter ?? '', 'Filter');
    const view = select('What a reader sees', ['read_uncommitted', 'read_committed'], params.view ?? 'read_uncommitted');
    const outcome = select('Outcome', ['', 'committed', 'aborted', 'open', 'plain'], params.outcome ?? '', 'any outcome');
    const note = h('span.muted', { 'aria-live': 'polite' });
    const more = h('button', { hidden: true, onclick: () => load(true) }, 'More');
    const earlier = h('button', { hidden: true, onclick: () => back() }, 'Earlier');
    const download = /** @type {HTMLAnchorElement} */ (h('a.button', { download: '' }, 'Download'));
    const problem = h('div', {});
    const form = h('form.bar.filters', { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); ask_(); } },
      label('Topic', topic), label('Partition', index), label('From offset', start), label('or time', time), label('Filter', filter), view, outcome, h('button.primary', {}, 'Read'), options);
    /** @type {LogRecord[]} */
    let rows = [];
    let next = 0;
    let first = 0; // from there on everything was looked at
    const place = () => ({ topic: topic.value, partition: Number(index.value || 0) });
    /** @type {Table<LogRecord>} */
    const table = new Table({
      label: 'Records',
      empty: params.topic ? 'Loading …' : 'Choose a topic.',
      key: row => String(row.offset),
      open: row => show(drawer(`${params.topic}-${params.partition ?? 0} at ${number(row.offset)}`), recordDetails(row, place())),
      columns: [
        { title: 'Offset', width: '96px', number: true, cell: row => number(row.offset) },
        { title: 'Outcome', width: '104px', cell: row => chip(row.outcome) },
        { title: 'Time', width: '124px', small: true, cell: row => moment(row.time_ms) },
        { title: 'Key', width: 'minmax(80px, 1fr)', cell: row => h('span.mono', {}, text(row.key).slice(0, 200)) },
        { title: 'Value', width: 'minmax(120px, 4fr)', cell: row => h('span.mono', {}, text(row.value).slice(0, 300)) },
        { title: 'Headers', width: '80px', number: true, small: true, cell: row => (row.headers.length ? number(row.headers.length) : '') },
        { title: 'Producer', width: '90px', number: true, small: true, cell: row => (row.producer === undefined ? '' : `${row.producer} / ${row.epoch}`) },
      ],
    });
    const wanted = () => ({
      ...place(), start: start.value.replace(/\D/g, ''), time_ms: time.value ? new Date(time.value).getTime() : '', filter: filter.value,
      view: view.value, outcome: outcome.value, producer: params.producer, limit: PAGE,
    });
    const ask_ = () => {
      const { topic: name, partition, start: from, filter: what, view: which, outcome: how } = wanted();
      params = { topic: name, partition: String(partition), start: String(from), time: time.value, filter: what, view: which, outcome: how };
      history.replaceState(null, '', `#/records${query(params)}`);
      load(false);
    };
    /** @param {boolean} isMore */
    const load = isMore => {
      if (!topic.value) return;
      const asked = isMore ? { ...wanted(), start: String(next), time_ms: '' } : wanted();
      download.href = `/api/download${query({ ...wanted(), limit: DOWNLOADED })}`;
      show(problem);
      note.textContent = 'reading …';
      during(problem, async isLatest => {
        const found = await ask('records', asked);
        if (!isLatest()) return;
        show(problem);
        rows = isMore ? [...rows, ...found.records].slice(-KEPT) : found.records;
        next = found.next;
        if (!isMore) first = Math.max(found.start, found.bounds.log_start);
        earlier.hidden = first <= found.bounds.log_start;
        table.options.empty = found.bounds.log_start === found.bounds.end ? 'This partition is empty.' : found.last ? 'No record matches up to the end of the partition.' : 'No record matches so far.';
        table.set(rows);
        if (!isMore && !asked.start && !asked.time_ms) table.scroller.scrollTop = table.scroller.scrollHeight; // the last ones
        more.hidden = found.last;
        const end = found.bounds;
        note.textContent = `${number(rows.length)} shown, ${number(found.searched)} read up to offset ${number(found.next)}; the partition has ${number(end.log_start)} to ${number(end.end)}${end.stable < end.end ? `, stable up to ${number(end.stable)}` : ''}`;
      }).then(() => {
        if (!problem.childElementCount) return;
        note.textContent = '';
        table.options.empty = 'Nothing could be read.';
        table.draw();
      });
    };
    const back = () => {
      const from = Math.max(0, first - EARLIER);
      note.textContent = 'reading …';
      during(problem, async isLatest => {
        const found = await ask('records', { ...wanted(), start: from, time_ms: '', limit: EARLIER });
        if (!isLatest()) return;
        show(problem);
        const before = /** @type {LogRecord[]} */ (found.records).filter(each => each.offset < first);
        rows = [...before, ...rows].slice(0, KEPT);
        note.textContent = `${number(before.length)} more between ${number(from)} and ${number(first)}`;
        first = Math.max(from, found.bounds.log_start);
        earlier.hidden = first <= found.bounds.log_start;
        table.set(rows);
        table.scroller.scrollTop = 0;
      }).then(() => { if (problem.childElementCount) note.textContent = ''; });
    };
    const fill = () => show(options, context.live.rows('topics').slice(0, 2000).map(row => h('option', { value: row.name })));
    root.append(form, problem,
      h('section.card.fill', {}, h('div.bar', {}, note, h('span.grow', {}), params.topic ? link('partition', { topic: params.topic, partition: params.partition ?? '0' }, 'As a strip of log') : null, earlier, more, download), table.element));
    fill();
    table.set([]);
    load(false);
    return { update: fill, unmount: () => table.close() };
  },
};

/** @param {string} type @param {string} placeholder @param {string} value @param {string} name @param {string} [kind] */
const input = (type, placeholder, value, name, kind = '') => /** @type {HTMLInputElement} */ (h(`input${kind ? `.${kind}` : ''}`, { type, placeholder, value, 'aria-label': name }));

/** @param {string} name @param {HTMLElement} field */
const label = (name, field) => h('label', {}, h('span', {}, name), field);

/** @param {string} name @param {string[]} values @param {string} chosen @param {string} [empty] */
const select = (name, values, chosen, empty = '') => /** @type {HTMLSelectElement} */ (h('select', { 'aria-label': name }, values.map(each => h('option', { value: each, selected: each === chosen }, each || empty))));
