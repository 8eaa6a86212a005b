// @ts-check
// fencepost's pipelines: last batch, rates, commit times, aborts, lag in seconds, state, dead letters.

import { ask } from '../lib/api.js';
import { spark } from '../lib/chart.js';
import { h, link, refresh, show } from '../lib/dom.js';
import { atMost, bytes, moment, number, plural, span } from '../lib/format.js';
import { card, chip, drawer, during, facts, figure } from '../lib/parts.js';

const ALIVE = /** @type {Record<string, string>} */ ({ open: 'open', ending: 'open', recent: 'committed', quiet: 'plain', unknown: 'plain' });

/** @type {import('../lib/types.js').View} */
export const pipelines = {
  name: 'pipelines',
  title: 'Pipelines',
  channels: ['pipelines'],
  mount(root, params, context) {
    const { live } = context;
    const body = h('div.tiles', {});
    root.append(body);
    const fill = () => {
      const rows = live.rows('pipelines').sort((a, b) => (a.pipeline < b.pipeline ? -1 : 1));
      if (!rows.length) return refresh(body, h('p.empty', {}, live.has('pipelines') ? 'No pipeline of fencepost has written to this cluster. ' : 'Loading …'));
      return refresh(body, rows.map(tile));
    };
    /** @param {any} row */
    const tile = row => h('section.card.tile', {},
      h('h2', {}, h('button.linklike', { onclick: () => open(row.pipeline) }, row.pipeline), ' ', row.activity ? h(`span.chip.${ALIVE[row.activity] ?? 'plain'}`, {}, row.activity) : null),
      row.problem ? h('p.warn', {}, row.problem) : null,
      h('div.figures.small', {},
        figure('last batch', row.last ? (row.last.reset ? 'reset' : number(row.last.batch)) : '–', row.entry_ms ? `${span(live.now - row.entry_ms)} ago` : ''),
        figure('lag', row.lag ? atMost(row.lag.records, row.lag.exact) : '–', row.lag && row.lag.seconds !== null ? `${span(row.lag.seconds * 1000)} behind` : ''),
        figure('batches / min', row.recent.per_minute === null ? '–' : String(row.recent.per_minute)),
        figure('batch, median', span(row.recent.transaction_ms.p50), row.recent.transaction_ms.p95 === undefined ? '' : `p95 ${span(row.recent.transaction_ms.p95)}`),
        figure('commit, median', span(row.recent.commit_ms.p50), row.recent.commit_ms.p95 === undefined ? '' : `p95 ${span(row.recent.commit_ms.p95)}`),
        figure('aborts', number(row.recent.aborts), `of ${number(row.recent.transactions)}`)),
      row.recent.durations.length > 1 ? h('div.trend', {}, h('span.muted', {}, 'its last transactions took'), spark(row.recent.durations, 300, 34)) : null);
    /** @param {string} name */
    const open = name => {
      const into = drawer(`Pipeline ${name}`);
      during(into, async () => {
        const found = await ask('pipeline', { name });
        show(into,
          facts([
            ['Query', found.last?.query], ['Last batch', found.last ? String(found.last.batch) : null], ['Committed', found.last?.time ? moment(Date.parse(found.last.time)) : null],
            ['Transactional id', found.transaction ? link('transaction', { id: found.transaction.id }, found.transaction.id) : null],
            ['State', found.transaction?.state],
          ]),
          card('What it reads', h('ul.plainlist', {}, found.lag.partitions.map((/** @type {any} */ each) => h('li.part', {},
            link('partition', { topic: each.topic, partition: each.partition }, `${each.topic}-${each.partition}`),
            h('span', {}, `lag ${atMost(each.records, each.exact)}`, h('span.muted', {}, ` at ${number(each.committed)} of ${number(each.end)}${each.seconds ? `, ${span(each.seconds * 1000)} behind` : ''} ${each.problem ?? ''}`)))))),
          found.state.length ? card('State', h('ul.plainlist', {}, found.state.map((/** @type {any} */ each) => h('li.part', {}, h('span', {}, each.step, ' ', link('topics', { name: each.topic }, each.topic)), h('span.muted', {}, each.problem || `${each.keys === null ? `≤ ${number(each.offsets)}` : number(each.keys)} keys, ${bytes(each.bytes)}`))))) : null,
          card('Dead letters', found.dead_letters.length ? h('ul.plainlist', {}, found.dead_letters.map((/** @type {any} */ each) => h('li.part', {}, h('span', {}, link('records', { topic: each.topic, partition: each.partition, start: each.offset }, `${each.topic}-${each.partition} at ${number(each.offset)}`), ' ', h('span.muted', {}, each.reason)), h('span.muted', {}, moment(each.time_ms))))) : h('p.empty', {}, 'None in the topics that it wrote to lately.')),
          card('Its last transactions', found.stories.length ? h('ul.plainlist', {}, found.stories.slice(0, 30).map((/** @type {import('../lib/types.js').Story} */ each) => h('li.part', {}, link('transaction', { id: each.id, key: each.key }, moment(each.start_ms)), h('span', {}, chip(each.ending ?? 'open'), h('span.muted', {}, ` ${span(each.duration_ms)}, ${plural(each.partitions, 'partition')}`))))) : h('p.empty', {}, 'None since the console started.')),
          card('Batches in the ledger', h('ul.plainlist', {}, (found.history ?? []).slice(0, 30).map((/** @type {any} */ each) => h('li.part', {}, each.reset ? 'reset' : `batch ${each.batch}`, h('span.muted', {}, each.time ?? ''))))));
      });
    };
    fill();
    if (params.name) open(params.name);
    return { update: () => void fill(), tick: () => void fill() };
  },
};
