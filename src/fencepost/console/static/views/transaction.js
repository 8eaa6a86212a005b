// @ts-check
// One transactional id: what it does now, and the story of its last transactions.

import { ask } from '../lib/api.js';
import { h, link, refresh } from '../lib/dom.js';
import { moment, number, plural, span } from '../lib/format.js';
import { card, chip, confirmAbort, during, facts, placeLink, showWhole, stateChip, storyPicture } from '../lib/parts.js';

/** @type {import('../lib/types.js').View} */
export const transaction = {
  name: 'transaction',
  title: 'Transaction',
  channels: ['transactions', 'timeline'],
  hidden: true,
  mount(root, params, context) {
    const body = h('div.stack', {});
    root.append(h('p.crumbs', {}, link('transactions', {}, 'Transactions'), ' / ', h('span.mono', {}, params.id ?? '')), body);
    let asked = 0;
    let last = '';
    /** @type {any} */
    let known = null;
    const load = () => during(body, async isLatest => {
      asked = Date.now();
      const found = await ask('transaction', { id: params.id });
      if (isLatest()) draw(known = found);
    });
    /** @param {any} found */
    const draw = found => {
      const now = /** @type {import('../lib/types.js').Transaction|null} */ (found.now);
      const stories = /** @type {import('../lib/types.js').Story[]} */ (found.stories);
      const chosen = stories.find(each => each.key === params.key) ?? stories[0];
      refresh(body,
        now ? card('Now', facts([
          ['State', stateChip(now.state)],
          ['Open for', now.open && now.start_ms ? span(context.live.now - now.start_ms) : null],
          ['Times out', now.deadline_ms ? `in ${span(now.deadline_ms - context.live.now)} (timeout ${span(now.timeout_ms)})` : `timeout ${span(now.timeout_ms)}`],
          ['Producer', `${now.producer}, epoch ${now.epoch}`],
          ['Coordinator', `broker ${now.coordinator}`],
          ['Pipeline', now.pipeline ? link('pipelines', { name: now.pipeline }, now.pipeline) : null],
        ]),
        now.where?.length ? h('div', {}, h('h3', {}, `In ${plural(now.where.length, 'partition')}`), h('p.places', {}, now.where.slice(0, 200).map(each => h('span.place', {}, placeLink(each))))) : null,
        now.state === 'Ongoing' ? h('p', {}, h('button.danger', { onclick: () => confirmAbort({ id: now.id }, context) }, 'Abort …')) : null)
          : card('Now', h('p.empty', {}, 'No coordinator knows this id any more.')),
        chosen ? card(chosen === stories[0] ? 'The last one' : 'The chosen one', h('p', {}, chip(chosen.ending ?? 'open'), ' ', h('span.muted', {}, `began ${moment(chosen.start_ms)}, ${chosen.duration_ms === null ? 'still open' : `took ${span(chosen.duration_ms)}`}`)),
          storyPicture(chosen, context.live.now),
          h('p', {}, h('button', { onclick: () => showWhole({ id: chosen.id, key: chosen.key }) }, 'Show all that it wrote'))) : null,
        card('Its last transactions', stories.length
          ? h('ul.plainlist', {}, stories.map(each => h('li.part', {}, link('transaction', { id: each.id, key: each.key }, moment(each.start_ms)), h('span', {}, chip(each.ending ?? 'open'), ' ', h('span.muted', {}, `${span(each.duration_ms ?? context.live.now - each.start_ms)}, ${plural(each.partitions, 'partition')}, epoch ${number(each.epoch)}`)))))
          : h('p.empty', {}, 'The console has seen none of its transactions yet.')));
    };
    load();
    return {
      update: channel => {
        if (channel !== 'transactions') return;
        const row = JSON.stringify(context.live.row('transactions', params.id) ?? null);
        if (row !== last && last && Date.now() - asked > 900 && !document.querySelector('.drawer, dialog')) load();
        last = row;
      },
      tick: () => { if (known && !body.querySelector('.failed')) draw(known); },
    };
  },
};
