// @ts-check
// Transactions of the last minute: a lane for each id, a bar for each transaction, moving with the clock.

import { h } from './dom.js';
import { moment, span } from './format.js';

/** @typedef {import('./types.js').Story} Story */

const SPAN_MS = 60_000;
const LANES_MAX = 10;
const LANE_PX = 24;
const FRAME_MS = 200;
const STALE_MS = 3000;

export class Timeline {
  /** @param {import('./live.js').Live} live @param {(story: Story) => void} open */
  constructor(live, open) {
    this.live = live;
    this.canvas = /** @type {HTMLCanvasElement} */ (h('canvas.timeline', { role: 'img', 'aria-label': 'Transactions of the last minute', onclick: (/** @type {MouseEvent} */ event) => { const found = this.at(event); if (found) open(found); }, onmousemove: (/** @type {MouseEvent} */ event) => this.hover(event) }));
    this.note = h('p.muted.timeline-note', {}, 'Begin to decision is light, decision to the last marker is dark.');
    this.element = h('div', {}, this.canvas, this.note);
    /** @type {{x: number, y: number, w: number, story: Story}[]} */
    this.drawn = [];
    this.timer = setInterval(() => { if (!document.hidden) this.draw(); }, FRAME_MS);
  }

  /** Lanes of those that were active last; they keep their order while they stay. @param {Story[]} stories */
  lanes(stories) {
    /** @type {Map<string, number>} */
    const last = new Map();
    for (const each of stories) last.set(each.id, Math.max(last.get(each.id) ?? 0, each.ended_ms ?? Infinity));
    const active = [...last].sort((a, b) => b[1] - a[1]).slice(0, LANES_MAX).map(each => each[0]);
    return active.sort();
  }

  draw() {
    const now = this.live.now;
    const known = this.live.health('timeline')?.good_ms ?? now;
    const openUntil = now - known > STALE_MS ? known : now; // what we have not asked for a while may have ended
    const stories = /** @type {Story[]} */ (this.live.rows('timeline')).filter(each => (each.ended_ms ?? now) > now - SPAN_MS);
    // What is open for longer than the console looked back is known from its coordinator.
    const told = new Set(stories.filter(each => each.ended_ms === null).map(each => each.id));
    for (const row of this.live.rows('transactions')) {
      if (row.open && row.start_ms !== null && !told.has(row.id)) stories.push({ ...row, key: '', decided_ms: null, ended_ms: null, duration_ms: null, ending: null });
    }
    const ids = this.lanes(stories);
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    const width = this.canvas.clientWidth || 600, height = Math.max(2, ids.length) * LANE_PX + 18;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext('2d');
    if (!pen) return;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const left = Math.min(190, width * 0.3);
    const x = (/** @type {number} */ time) => left + ((time - (now - SPAN_MS)) / SPAN_MS) * (width - left - 6);
    for (let back = 0; back <= 60; back += 15) {
      pen.fillStyle = colour('line');
      pen.fillRect(x(now - back * 1000), 0, 1, height - 16);
      pen.fillStyle = colour('muted');
      pen.textAlign = back === 0 ? 'right' : 'center';
      pen.fillText(back ? `−${back} s` : 'now', x(now - back * 1000), height - 7);
    }
    pen.textAlign = 'left';
    if (!ids.length) {
      pen.fillStyle = colour('muted');
      pen.fillText(this.live.has('timeline') ? 'No transaction in the last minute.' : 'Loading …', 4, LANE_PX / 2);
    }
    const since = Number(this.live.head('timeline').since_ms ?? 0);
    if (x(since) > left) {
      pen.fillStyle = colour('ground');
      pen.fillRect(left, 0, x(since) - left, height - 16);
      pen.fillStyle = colour('muted');
      pen.fillText(fit(pen, `more than ${this.live.rows('timeline').length} since: older ones are not shown`, x(since) - left - 16), left + 8, LANE_PX / 2);
    }
    this.drawn = [];
    ids.forEach((id, lane) => {
      pen.fillStyle = colour('ink');
      pen.fillText(fit(pen, id, left - 12), 4, lane * LANE_PX + LANE_PX / 2);
    });
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width - left, height - 16);
    pen.clip();
    for (const story of stories) {
      const lane = ids.indexOf(story.id);
      if (lane < 0) continue;
      const from = x(story.start_ms), decided = x(story.decided_ms ?? story.ended_ms ?? openUntil), to = Math.max(from + 2, x(story.ended_ms ?? openUntil));
      const y = lane * LANE_PX + 5, tall = LANE_PX - 10;
      pen.fillStyle = colour(story.ending ?? 'open');
      pen.globalAlpha = story.ended_ms ? 0.55 : 0.8;
      pen.beginPath();
      pen.roundRect(from, y, to - from, tall, 2);
      pen.fill();
      pen.globalAlpha = 1;
      if (story.decided_ms) pen.fillRect(Math.min(decided, to - 1.5), y, Math.max(1.5, to - decided), tall);
      this.drawn.push({ x: from, y, w: to - from, story });
    }
    pen.restore();
  }

  /** @param {MouseEvent} event */
  at(event) {
    const hit = this.drawn.filter(each => event.offsetX >= each.x - 3 && event.offsetX <= each.x + each.w + 3 && event.offsetY >= each.y - 3 && event.offsetY <= each.y + LANE_PX);
    return hit[hit.length - 1]?.story;
  }

  /** @param {MouseEvent} event */
  hover(event) {
    const found = this.at(event);
    this.canvas.style.cursor = found ? 'pointer' : '';
    this.note.textContent = found ? `${found.id}: ${found.ending ?? 'open'}, began ${moment(found.start_ms)}, ${found.duration_ms === null ? 'still open' : `took ${span(found.duration_ms)}`}, ${found.partitions} partitions` : 'Begin to decision is light, decision to the last marker is dark.';
  }

  close() { clearInterval(this.timer); }
}

/** @param {CanvasRenderingContext2D} pen @param {string} text @param {number} width */
function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}
