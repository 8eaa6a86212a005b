// @ts-check
// What is known of a partition's log: windows of batches that were loaded, and samples of the rest.
// Keeps a bounded number of batches: those farthest from what is seen are forgotten first.

import { ask } from './api.js';

/** @typedef {import('./types.js').Batch} Batch */

const BATCHES_KEPT = 20_000;
const BATCHES_ASKED = 1000;
/** Where more offsets are seen at once, samples must do. */
export const FULL_OFFSETS = 30_000;
const SAMPLES = 160;

export class Log {
  /** @param {import('./types.js').Place} place @param {() => void} changed */
  constructor(place, changed) {
    this.place = place;
    this.changed = changed;
    /** @type {{from: number, to: number, batches: Batch[]}[]} whole windows, in order, apart from each other */
    this.windows = [];
    /** @type {{from: number, to: number, batches: Batch[]}|null} */
    this.sampled = null;
    /** @type {import('./types.js').Bounds|null} */
    this.bounds = null;
    this.isAsking = false;
    this.problem = '';
  }

  /** Batches that have offsets in a range; whether all of it is known. @param {number} from @param {number} to */
  between(from, to) {
    const found = [];
    let position = from;
    for (const each of this.windows) {
      if (each.to <= from || each.from >= to) continue;
      if (each.from <= position) position = Math.max(position, each.to);
      for (let index = firstAfter(each.batches, from); index < each.batches.length && each.batches[index].first < to; index += 1) found.push(each.batches[index]);
    }
    return { batches: found, isWhole: position >= to };
  }

  /** Load what is missing there, one question at a time. @param {number} from @param {number} to */
  async want(from, to) {
    if (this.isAsking || !this.bounds) return;
    from = Math.max(Math.floor(from), this.bounds.log_start);
    to = Math.min(Math.ceil(to), this.bounds.end);
    if (from >= to) return;
    this.isAsking = true;
    let isNew = false;
    try {
      isNew = await (to - from > FULL_OFFSETS ? this.sample(from, to) : this.load(from, to));
      this.problem = '';
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
      setTimeout(() => this.changed(), 2000);
    } finally {
      this.isAsking = false;
    }
    if (isNew) this.changed(); // and that may want more
  }

  /** Whether there was something to ask for. @param {number} from @param {number} to */
  async load(from, to) {
    let start = from;
    for (const each of this.windows) if (each.from <= start && each.to > start) start = each.to;
    const before = this.isTailOld ? undefined : this.tail;
    if (before && before.from <= start && before.to > start) start = before.to;
    if (start >= to) return false;
    const found = /** @type {import('./types.js').Window_} */ (await ask('strip', { ...this.place, start, batches: BATCHES_ASKED }));
    this.bounds = found.bounds;
    // Above the last stable offset outcomes still change, so that part is not kept for long.
    const end = Math.min(found.next, Math.max(found.bounds.stable, start));
    this.add(start, end, found.batches.filter(each => each.first < end));
    if (found.next > end) {
      const batches = found.batches.filter(each => each.first >= end);
      const isMore = before && before.to === end && before.batches.length < BATCHES_KEPT;
      this.tail = { from: isMore ? before.from : end, to: found.next, batches: isMore ? [...before.batches, ...batches] : batches };
      this.isTailOld = false;
    }
    return true;
  }

  /** @type {{from: number, to: number, batches: Batch[]}|undefined} a part of what lies above the last stable offset */
  tail = undefined;
  isTailOld = false;

  /** Whether there was something to ask for. A log that grows is not sampled again for a little more. @param {number} from @param {number} to */
  async sample(from, to) {
    const known = this.sampled, slack = (to - from) / 20;
    if (known && known.from <= from + slack && known.to >= to - slack && known.to - known.from < 3 * (to - from)) return false;
    const found = await ask('overview', { ...this.place, start: from, end: to, points: SAMPLES });
    this.bounds = found.bounds;
    this.sampled = { from, to, batches: found.batches };
    return true;
  }

  /** @param {number} from @param {number} to @param {Batch[]} batches */
  add(from, to, batches) {
    if (to <= from) return;
    const touching = this.windows.filter(each => each.to >= from && each.from <= to);
    const merged = { from: Math.min(from, ...touching.map(each => each.from)), to: Math.max(to, ...touching.map(each => each.to)), batches };
    if (touching.length) {
      const known = new Map(touching.flatMap(each => each.batches).map(each => [each.first, each]));
      for (const each of batches) known.set(each.first, each);
      merged.batches = [...known.values()].sort((a, b) => a.first - b.first);
    }
    withEnds(merged.batches);
    this.windows = [...this.windows.filter(each => !touching.includes(each)), merged].sort((a, b) => a.from - b.from);
    let count = this.windows.reduce((sum, each) => sum + each.batches.length, 0);
    while (count > BATCHES_KEPT && this.windows.length > 1) {
      const far = this.windows.reduce((worst, each) => (Math.abs(each.from - from) > Math.abs(worst.from - from) ? each : worst));
      count -= far.batches.length;
      this.windows = this.windows.filter(each => each !== far);
    }
    if (count > BATCHES_KEPT) {
      const only = this.windows[0];
      only.batches = only.batches.slice(-BATCHES_KEPT / 2);
      only.from = only.batches[0].first;
    }
  }

  /** @param {import('./types.js').Bounds} bounds */
  moved(bounds) {
    this.isTailOld = true; // its transactions may have ended
    this.bounds = bounds;
    if (bounds.log_start) this.windows = this.windows.filter(each => each.to > bounds.log_start);
  }
}

/** Which marker ended each transaction, where it came with a later window. @param {Batch[]} batches */
function withEnds(batches) {
  /** @type {Map<number|undefined, number>} */
  const ends = new Map();
  for (const each of batches.toReversed()) {
    if (each.outcome === 'commit' || each.outcome === 'abort') ends.set(each.producer, each.first);
    else if (each.outcome === 'committed' || each.outcome === 'aborted') each.ends_at ??= ends.get(each.producer);
  }
}

/** The first batch that ends at or after an offset. @param {Batch[]} batches @param {number} offset */
export function firstAfter(batches, offset) {
  let low = 0, high = batches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (batches[middle].last < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
