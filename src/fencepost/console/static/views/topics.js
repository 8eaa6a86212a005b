// @ts-check
// Topics with sizes, rates and settings.

import { ask } from '../lib/api.js';
import { h, link, show } from '../lib/dom.js';
import { bytes, number, plural, rate } from '../lib/format.js';
import { card, drawer, during, facts } from '../lib/parts.js';
import { Table } from '../lib/table.js';

/** @typedef {import('../lib/types.js').Topic} Topic */

/** @type {import('../lib/types.js').View} */
export const topics = {
  name: 'topics',
  title: 'Topics',
  channels: ['topics'],
  mount(root, params, context) {
    const { live } = context;
    const filter = /** @type {HTMLInputElement} */ (h('input', { type: 'search', placeholder: 'Filter  ( / )', 'aria-label': 'Filter', oninput: () => fill() }));
    const internal = /** @type {HTMLInputElement} */ (h('input', { type: 'checkbox', id: 'internal', onchange: () => fill() }));
    const silent = h('p.warn', { hidden: true });
    /** @type {Table<Topic>} */
    const table = new Table({
      label: 'Topics',
      empty: 'Loading …',
      key: row => row.name,
      open: row => open(row.name),
      order: (a, b) => (a.name < b.name ? -1 : 1),
      columns: [
        { title: 'Topic', width: 'minmax(140px, 3fr)', cell: row => h('span.mono', { title: row.name }, row.name), sort: row => row.name },
        { title: 'Partitions', width: '90px', number: true, cell: row => number(row.partitions), sort: row => row.partitions },
        { title: 'Replicas', width: '80px', number: true, small: true, cell: row => number(row.replication), sort: row => row.replication },
        { title: 'Offsets', width: '110px', number: true, small: true, cell: row => number(row.offsets), sort: row => row.offsets, tip: 'from the log’s start to its end: records, markers and gaps' },
        { title: 'Size', width: '90px', number: true, cell: row => bytes(row.bytes), sort: row => row.bytes },
        { title: 'Offsets / s', width: '100px', number: true, cell: row => rate(row.rate), sort: row => row.rate },
        { title: 'Held', width: '110px', number: true, small: true, cell: row => (row.held ? h('span.late', {}, `${plural(row.held, 'partition')}`) : ''), sort: row => row.held_offsets, tip: 'partitions with an open transaction' },
      ],
    });
    const fill = () => {
      if (!live.has('topics')) return table.set([]);
      table.options.empty = filter.value ? 'Nothing matches.' : 'This cluster has no topics.';
      const wanted = filter.value.toLowerCase();
      table.set(live.rows('topics').filter(row => (internal.checked || !row.internal) && (!wanted || row.name.toLowerCase().includes(wanted))));
      const lost = live.head('topics').silent ?? [];
      silent.hidden = !lost.length;
      silent.textContent = lost.length ? `Some partitions do not answer: ${lost[0]}` : '';
      return undefined;
    };
    /** @param {string} name */
    const open = name => {
      const body = drawer(`Topic ${name}`);
      during(body, async () => {
        const found = await ask('topic', { name });
        const settings = /** @type {{name: string, value: string|null, own: boolean}[]} */ (found.settings);
        show(body,
          h('p', {}, link('records', { topic: name, partition: 0 }, 'Records'), ' · ', link('why', { topic: name }, 'Why is it stuck?')),
          card(plural(found.partitions.length, 'partition'), h('ul.plainlist', {}, found.partitions.slice(0, 1000).map((/** @type {any} */ each) => h('li.part', {},
            h('span', {}, link('partition', { topic: name, partition: each.partition }, `partition ${each.partition}`), ' ', h('span.muted', {}, `leader ${each.leader}, in sync ${each.in_sync.length} of ${each.replicas.length}`)),
            each.bounds ? h('span', {}, `${number(each.bounds.log_start)} – ${number(each.bounds.end)}`, each.bounds.stable < each.bounds.end ? h('span.late', {}, ` held at ${number(each.bounds.stable)}`) : null) : h('span.bad', {}, each.problem))))),
          card('Settings', settings.length ? facts(settings.map(each => [each.name, h(each.own ? 'b' : 'span.muted', { title: each.own ? 'set for this topic' : 'a default' }, each.value || '–')])) : h('p.empty', {}, 'They are hidden from this user.')));
      });
    };
    root.append(h('section.card.fill', {}, h('div.bar', {}, h('h2', {}, 'Topics'), h('span.grow', {}), h('label.check', { for: 'internal' }, internal, 'internal'), filter), silent, table.element));
    fill();
    if (params.name) open(params.name);
    return { update: fill, unmount: () => table.close() };
  },
};
