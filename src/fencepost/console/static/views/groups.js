// @ts-check
// Groups with their true lag: records that a read_committed reader still gets, without markers and aborted ones.

import { ask } from '../lib/api.js';
import { area, spark } from '../lib/chart.js';
import { h, link, refresh } from '../lib/dom.js';
import { atMost, number, plural, span } from '../lib/format.js';
import { card, drawer, during, facts, placeLink } from '../lib/parts.js';
import { Table } from '../lib/table.js';

/** @typedef {import('../lib/types.js').Group} Group */
/** @typedef {import('../lib/types.js').GroupLag} GroupLag */

/** @type {import('../lib/types.js').View} */
export const groups = {
  name: 'groups',
  title: 'Groups',
  channels: ['groups'],
  mount(root, params, context) {
    const { live } = context;
    const filter = /** @type {HTMLInputElement} */ (h('input', { type: 'search', placeholder: 'Filter  ( / )', 'aria-label': 'Filter', oninput: () => fill() }));
    /** @type {Table<Group>} */
    const table = new Table({
      label: 'Groups',
      empty: 'Loading …',
      key: row => row.id,
      open: row => open(row.id),
      order: (a, b) => (b.lag ?? Infinity) - (a.lag ?? Infinity) || (a.id < b.id ? -1 : 1),
      columns: [
        { title: 'Group', width: 'minmax(120px, 2fr)', cell: row => h('span.mono', { title: row.id }, row.id), sort: row => row.id },
        { title: 'State', width: '90px', small: true, cell: row => row.state, sort: row => row.state },
        { title: 'Members', width: '80px', number: true, small: true, cell: row => number(row.members), sort: row => row.members },
        { title: 'Lag', width: '110px', number: true, cell: row => atMost(row.lag, row.exact), sort: row => row.lag, tip: 'records that a read_committed reader will still get' },
        { title: 'Behind', width: '100px', number: true, cell: row => (row.lag ? span(row.oldest_s === null ? null : row.oldest_s * 1000) : '0 s'), sort: row => row.oldest_s, tip: 'the age of the first unread record' },
        { title: 'Held', width: '80px', number: true, small: true, cell: row => (row.held ? h('span.late', {}, number(row.held)) : ''), sort: row => row.held, tip: 'offsets behind open transactions' },
        { title: 'Lag over time', width: '140px', small: true, cell: row => (row.trend && row.trend.length > 1 ? spark(row.trend) : '') },
        { title: 'Topics', width: 'minmax(100px, 2fr)', small: true, cell: row => row.topics.join(', ') },
      ],
    });
    const fill = () => {
      if (!live.has('groups')) return table.set([]);
      table.options.empty = filter.value ? 'Nothing matches.' : 'This cluster has no groups.';
      const wanted = filter.value.toLowerCase();
      table.set(live.rows('groups').filter(row => !wanted || `${row.id} ${row.topics.join(' ')}`.toLowerCase().includes(wanted)));
    };
    /** The panel that is open, again. */
    let load = () => {};
    /** @param {string} id */
    const open = id => {
      const body = drawer(`Group ${id}`);
      load = () => { if (body.isConnected) read(); };
      const read = () => during(body, async isLatest => {
        const found = await ask('group', { id });
        if (!isLatest()) return;
        const lags = /** @type {GroupLag[]} */ (found.lags);
        refresh(body,
          facts([['State', found.state], ['Coordinator', `broker ${found.coordinator}`], ['Protocol', found.protocol || '–']]),
          card('Lag in records', area(found.points, { label: 'Lag' })),
          card(`${plural(lags.length, 'partition')}`, h('ul.plainlist', {}, lags.slice(0, 500).map(each => h('li.part', {},
            h('span', {}, placeLink(each), ' ', h('span.muted', {}, each.problem || each.place)),
            h('span', {}, atMost(each.records, each.counted === 'counted'), h('span.muted', {}, ` at ${number(each.committed)} of ${number(each.stable)}${each.held ? `, ${number(each.held)} held` : ''} `), each.held ? link('why', { topic: each.topic, partition: each.partition }, 'why?') : null))))),
          card('Members', found.members === null ? h('p.empty', {}, 'This kind of group does not tell.') : found.members.length ? h('ul.plainlist', {}, found.members.map((/** @type {any} */ each) => h('li.part', {}, h('span.mono', {}, each.client), h('span.muted', {}, each.host)))) : h('p.empty', {}, 'Nobody reads for it now.')));
      });
      read();
    };
    root.append(h('section.card.fill', {}, h('div.bar', {}, h('h2', {}, 'Groups'), h('span.muted.wide-only', {}, 'Lag in records, without markers and aborted ones; ≤ is an upper bound.'), h('span.grow', {}), filter), table.element));
    fill();
    if (params.id) open(params.id);
    return { update: () => { fill(); load(); }, unmount: () => table.close() };
  },
};
