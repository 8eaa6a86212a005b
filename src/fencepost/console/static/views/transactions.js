// @ts-check
// All transactional ids, open ones first; what ended lately, as a timeline; rates and durations.

import { h, refresh } from '../lib/dom.js';
import { number, plural, rate, span } from '../lib/format.js';
import { figure, stateChip } from '../lib/parts.js';
import { Table } from '../lib/table.js';
import { Timeline } from '../lib/timeline.js';

/** @typedef {import('../lib/types.js').Transaction} Transaction */

/** @type {import('../lib/types.js').View} */
export const transactions = {
  name: 'transactions',
  title: 'Transactions',
  channels: ['transactions', 'timeline'],
  mount(root, params, context) {
    const { live } = context;
    const figures = h('div.figures', {});
    const timeline = new Timeline(live, story => context.go('transaction', { id: story.id, key: story.key }));
    const filter = /** @type {HTMLInputElement} */ (h('input', { type: 'search', placeholder: 'Filter id, topic, pipeline', 'aria-label': 'Filter', value: params.filter ?? '', oninput: () => fill() }));
    const onlyOpen = /** @type {HTMLInputElement} */ (h('input', { type: 'checkbox', id: 'only-open', onchange: () => fill() }));
    const missing = h('p.warn', { hidden: true });
    const count = h('span.muted', {});
    /** @type {Table<Transaction>} */
    const table = new Table({
      label: 'Transactional ids',
      empty: 'No transactional id has ever been used on this cluster.',
      key: row => row.id,
      open: row => context.go('transaction', { id: row.id }),
      order: (a, b) => Number(b.open) - Number(a.open) || (a.open ? (a.start_ms ?? 0) - (b.start_ms ?? 0) : a.id < b.id ? -1 : 1),
      columns: [
        { title: 'Transactional id', width: 'minmax(140px, 3fr)', cell: row => h('span.mono', { title: row.id }, row.id), sort: row => row.id },
        { title: 'State', width: '104px', cell: row => stateChip(row.state), sort: row => row.state },
        { title: 'Open for', width: '110px', number: true, cell: row => age(row), sort: row => (row.open && row.start_ms ? -row.start_ms : null) },
        { title: 'Timeout', width: '100px', number: true, small: true, cell: row => span(row.timeout_ms), sort: row => row.timeout_ms },
        { title: 'Partitions', width: '90px', number: true, small: true, cell: row => (row.open ? number(row.partitions) : ''), sort: row => row.partitions },
        { title: 'Writes to', width: 'minmax(100px, 2fr)', small: true, cell: row => row.topics.join(', ') },
        { title: 'Producer', width: '110px', number: true, small: true, cell: row => `${row.producer} / ${row.epoch}`, sort: row => row.producer, tip: 'producer id / epoch' },
        { title: 'Pipeline', width: 'minmax(80px, 1fr)', small: true, cell: row => row.pipeline ?? '', sort: row => row.pipeline },
      ],
    });
    /** @param {Transaction} row */
    const age = row => {
      if (!row.open || row.start_ms === null) return '';
      const ms = live.now - row.start_ms;
      return h(`span${ms > row.timeout_ms ? '.bad' : ms > row.timeout_ms / 2 ? '.late' : ''}`, {}, span(ms));
    };
    const fill = () => {
      if (!live.has('transactions')) { table.options.empty = 'Loading …'; table.set([]); return; }
      table.options.empty = filter.value || onlyOpen.checked ? 'Nothing matches.' : 'No transactional id has ever been used on this cluster.';
      const wanted = filter.value.toLowerCase();
      const all = /** @type {Transaction[]} */ (live.rows('transactions'));
      const rows = all.filter(row => (!onlyOpen.checked || row.open) && (!wanted || `${row.id} ${row.topics.join(' ')} ${row.pipeline ?? ''}`.toLowerCase().includes(wanted)));
      table.set(rows);
      count.textContent = rows.length === all.length ? plural(all.length, 'id') : `${number(rows.length)} of ${plural(all.length, 'id')}`;
      const lost = live.head('transactions').missing ?? [];
      missing.hidden = !lost.length;
      missing.textContent = lost.length ? `Not all coordinators answer: ${lost[0]}` : '';
    };
    const sum = () => {
      const head = live.head('timeline');
      const p = head.percentiles_ms ?? {};
      const opened = live.rows('transactions').filter(row => row.open);
      const oldest = opened.reduce((least, row) => Math.min(least, row.start_ms ?? Infinity), Infinity);
      refresh(figures,
        figure('open now', number(opened.length)),
        figure('oldest open', opened.length && oldest < Infinity ? span(live.now - oldest) : '–'),
        figure('commits / s', rate(head.commits_per_s), 'last minute'),
        figure('aborts / s', rate(head.aborts_per_s), 'last minute'),
        figure('duration, median', p.p50 === undefined ? '–' : span(p.p50), p.p95 === undefined ? '' : `p95 ${span(p.p95)} · p99 ${span(p.p99)}`));
    };
    root.append(figures,
      h('section.card', {}, h('h2', {}, 'The last minute'), timeline.element),
      h('section.card.fill', {}, h('div.bar', {}, h('h2', {}, 'Transactional ids'), count, h('span.grow', {}), h('label.check', { for: 'only-open' }, onlyOpen, 'only open'), filter), missing, table.element));
    fill();
    sum();
    timeline.draw();
    return {
      update: channel => { if (channel === 'transactions') fill(); if (channel === 'timeline' || channel === 'transactions') sum(); },
      tick: () => { table.draw(); sum(); },
      unmount: () => { table.close(); timeline.close(); },
    };
  },
};
