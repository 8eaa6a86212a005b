// @ts-check
// A partition as a strip: batches by offset, coloured by outcome, with a band for each transaction; markers; where the log
// begins, where read_committed readers stop, where it ends, and where groups stand. Pan, zoom, click.

import { h } from './dom.js';
import { number, plural, bytes, moment } from './format.js';
import { FULL_OFFSETS } from './log.js';

/** @typedef {import('./types.js').Batch} Batch */

const HEIGHT = 216, TOP = 46, TALL = 74, BAND = 7;
const MAP_HEIGHT = 26;
const SCALE_MAX = 60;
const MARKERS = new Set(['commit', 'abort', 'control']);

export class Strip {
  /**
   * @param {import('./log.js').Log} log
   * @param {{select: (batch: Batch|null) => void, isolation: () => string, groups: () => {id: string, offset: number}[]}} options
   */
  constructor(log, options) {
    this.log = log;
    this.options = options;
    this.left = 0;
    this.scale = 8; // pixels per offset
    this.isFollowing = true;
    /** @type {Batch|null} */
    this.selected = null;
    /** @type {Batch|null} */
    this.hovered = null;
    /** @type {Batch[]} */
    this.map = [];
    this.isScheduled = false;
    this.canvas = /** @type {HTMLCanvasElement} */ (h('canvas.strip', { tabindex: 0, role: 'img', 'aria-label': 'The log of the partition. Arrows move, plus and minus zoom, brackets select a batch.' }));
    this.minimap = /** @type {HTMLCanvasElement} */ (h('canvas.minimap', { role: 'img', 'aria-label': 'The whole partition', title: 'The whole partition, sampled. Click to go there.' }));
    this.note = h('p.muted.strip-note', { 'aria-live': 'polite' }, ' ');
    this.element = h('div.strip-box', {}, this.minimap, this.canvas, this.note);
    this.listen();
    this.describe(null);
    this.resized = new ResizeObserver(() => this.schedule());
    this.resized.observe(this.canvas);
  }

  get width() { return this.canvas.clientWidth || 800; }
  get span() { return this.width / this.scale; }
  get bounds() { return this.log.bounds ?? { topic: '', partition: 0, log_start: 0, stable: 0, end: 0 }; }

  listen() {
    this.canvas.addEventListener('wheel', event => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY / 200), event.offsetX);
      else this.pan((Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY) / this.scale);
    }, { passive: false });
    /** @type {{x: number, left: number, moved: boolean}|null} */
    let grip = null;
    this.canvas.addEventListener('pointerdown', event => { grip = { x: event.offsetX, left: this.left, moved: false }; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener('pointermove', event => {
      if (grip && Math.abs(event.offsetX - grip.x) > 4) { grip.moved = true; this.isFollowing = false; this.go(grip.left - (event.offsetX - grip.x) / this.scale); }
      else if (!grip) { this.hovered = this.at(event.offsetX, event.offsetY); this.describe(this.hovered ?? this.selected); this.schedule(); }
    });
    this.canvas.addEventListener('pointerup', event => { if (grip && !grip.moved) this.select(this.at(event.offsetX, event.offsetY)); grip = null; });
    this.canvas.addEventListener('pointerleave', () => { this.hovered = null; this.schedule(); });
    this.minimap.addEventListener('pointerdown', event => {
      const { log_start, end } = this.bounds;
      this.isFollowing = false;
      this.go(log_start + (event.offsetX / (this.minimap.clientWidth || 1)) * (end - log_start) - this.span / 2);
    });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const act = /** @type {Record<string, () => void>} */ ({
      ArrowLeft: () => this.pan(-this.span / 8), ArrowRight: () => this.pan(this.span / 8),
      '+': () => this.zoom(1.6), '=': () => this.zoom(1.6), '-': () => this.zoom(1 / 1.6),
      Home: () => { this.isFollowing = false; this.go(this.bounds.log_start); }, End: () => this.follow(),
      '[': () => this.step(-1), ']': () => this.step(1), Enter: () => this.options.select(this.selected),
    })[event.key];
    if (!act || (event.key === 'Enter' && document.activeElement !== this.canvas)) return false;
    act();
    event.preventDefault();
    return true;
  }

  /** @param {number} offsets */
  pan(offsets) { this.isFollowing = false; this.go(this.left + offsets); }

  /** @param {number} left */
  go(left) {
    const { log_start, end } = this.bounds;
    const first = log_start - this.span * 0.1, last = end - this.span * 0.85;
    this.left = Math.max(first, Math.min(left, Math.max(first, last)));
    if (last > log_start && left > last) this.isFollowing = true;
    this.schedule();
  }

  follow() { this.isFollowing = true; this.schedule(); }

  /** @param {number} factor @param {number} [x] */
  zoom(factor, x = this.width / 2) {
    const { log_start, end } = this.bounds;
    const at = this.left + x / this.scale;
    const least = this.width / Math.max(20, (end - log_start) * 1.2);
    this.scale = Math.max(Math.min(least, 8), Math.min(SCALE_MAX, this.scale * factor));
    if (!this.isFollowing) this.go(at - x / this.scale);
    this.schedule();
  }

  all() {
    const { batches } = this.log.between(this.left, this.left + this.span);
    const known = new Set(batches.map(each => each.first));
    const tail = this.log.tail?.batches.filter(each => !known.has(each.first) && each.last >= this.left && each.first <= this.left + this.span) ?? [];
    if (this.span > FULL_OFFSETS) return [...(this.log.sampled?.batches ?? []), ...tail];
    return [...batches, ...tail];
  }

  /** @param {number} by */
  step(by) {
    const all = this.all();
    const at = all.findIndex(each => each.first === this.selected?.first);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
    if (next) this.select(next);
  }

  /** @param {Batch|null} batch */
  select(batch) {
    this.selected = batch;
    this.describe(batch);
    this.options.select(batch);
    if (batch && (batch.first < this.left || batch.last > this.left + this.span)) { this.isFollowing = false; this.go(batch.first - this.span / 2); }
    this.schedule();
  }

  /** @param {number} x @param {number} y */
  at(x, y) {
    if (y < TOP - 8 || y > TOP + TALL + 8) return null;
    const offset = this.left + x / this.scale, near = 4 / this.scale;
    return this.all().find(each => each.first - near <= offset && each.last + 1 + near > offset) ?? null;
  }

  /** @param {Batch|null} batch */
  describe(batch) {
    const isMarker = batch && MARKERS.has(batch.outcome);
    this.note.textContent = batch
      ? isMarker ? `offset ${number(batch.first)}: ${batch.outcome} marker of producer ${batch.producer}, ${moment(batch.time_ms)}`
        : `offsets ${number(batch.first)} to ${number(batch.last)}: ${batch.outcome}, ${plural(batch.count, 'record')}, ${bytes(batch.bytes)}${batch.producer === undefined ? '' : `, producer ${batch.producer} epoch ${batch.epoch}`}, ${moment(batch.time_ms)}`
      : this.log.problem || (this.span > FULL_OFFSETS ? 'Zoomed out: samples of the log. Zoom in to see every batch.' : 'Drag or scroll to move, ctrl and scroll to zoom, click a batch.');
  }

  schedule() {
    if (this.isScheduled || !this.canvas.isConnected) return;
    this.isScheduled = true;
    requestAnimationFrame(() => { this.isScheduled = false; this.draw(); });
  }

  draw() {
    const { log_start, end, stable } = this.bounds;
    if (this.isFollowing) this.left = Math.max(log_start - this.span * 0.1, end - this.span * 0.85);
    const paper = fresh(this.canvas, HEIGHT);
    if (!paper) return;
    const { pen, colour } = paper;
    const x = (/** @type {number} */ offset) => (offset - this.left) * this.scale;
    const isCommitted = this.options.isolation() === 'read_committed';
    // the log's ground, up to its end
    pen.fillStyle = colour('ground');
    pen.fillRect(Math.max(0, x(log_start)), TOP, Math.max(0, Math.min(this.width, x(end)) - Math.max(0, x(log_start))), TALL);
    this.ruler(pen, colour, x);
    const isSampled = this.span > FULL_OFFSETS;
    const related = this.hovered ?? this.selected;
    const batches = this.all();
    this.canvas.dataset.batches = String(batches.length);
    for (const batch of batches) {
      const isMarker = MARKERS.has(batch.outcome);
      const isSeen = !isMarker && (!isCommitted || ((batch.outcome === 'plain' || batch.outcome === 'committed') && batch.first < stable));
      const from = x(batch.first), wide = Math.max(isSampled ? 3 : 1.2, (batch.last - batch.first + 1) * this.scale - (this.scale > 3 ? 1.5 : 0));
      if (isMarker) { this.marker(pen, colour, batch, from, wide, isSeen); continue; }
      pen.globalAlpha = isSeen ? 1 : 0.22;
      pen.fillStyle = colour(batch.outcome);
      box(pen, from, TOP, wide, TALL, Math.min(4, wide / 3));
      if (batch.producer !== undefined && batch.outcome !== 'plain') {
        pen.fillStyle = tint(batch);
        box(pen, from, TOP + TALL - BAND, wide, BAND, Math.min(3, wide / 3));
      }
      if (!isSeen && wide > 6) { pen.globalAlpha = 0.5; hatch(pen, colour('muted'), from, TOP, wide, TALL); }
      pen.globalAlpha = 1;
      if (isSeen && wide > 44) {
        pen.fillStyle = colour('on');
        pen.font = '11px system-ui, sans-serif';
        pen.textAlign = 'left';
        pen.fillText(number(batch.count), from + 5, TOP + 14);
      }
      const isKin = related && related.producer !== undefined && batch.producer === related.producer && batch.ends_at === related.ends_at;
      if (batch.first === this.selected?.first || isKin) {
        pen.strokeStyle = colour('ink');
        pen.lineWidth = batch.first === this.selected?.first ? 2.5 : 1.2;
        pen.strokeRect(from - 0.5, TOP - 2, wide + 1, TALL + 4);
      }
    }
    this.lines(pen, colour, x);
    this.drawMap();
    this.log.want(this.left - this.span * 0.2, this.left + this.span * 1.2);
  }

  /** @param {CanvasRenderingContext2D} pen @param {(name: string) => string} colour @param {Batch} batch @param {number} from @param {number} wide @param {boolean} isSeen */
  marker(pen, colour, batch, from, wide, isSeen) {
    pen.globalAlpha = isSeen || this.options.isolation() !== 'read_committed' ? 1 : 0.6;
    pen.fillStyle = batch.outcome === 'commit' ? colour('committed') : batch.outcome === 'abort' ? colour('aborted') : colour('plain');
    const middle = from + wide / 2, y = TOP + TALL / 2, size = Math.max(1.5, Math.min(6, wide / 2 + 1));
    pen.fillRect(middle - 0.6, TOP + 8, 1.2, TALL - 16);
    pen.beginPath();
    pen.moveTo(middle, y - size - 2); pen.lineTo(middle + size, y); pen.lineTo(middle, y + size + 2); pen.lineTo(middle - size, y);
    pen.fill();
    if (batch.producer !== undefined && wide > 3) { pen.fillStyle = tint(batch); pen.fillRect(middle - 2, TOP + TALL - BAND, 4, BAND); }
    pen.globalAlpha = 1;
    if (batch.first === this.selected?.first) { pen.strokeStyle = colour('ink'); pen.lineWidth = 2; pen.strokeRect(middle - size - 3, y - size - 5, 2 * size + 6, 2 * size + 10); }
  }

  /** @param {CanvasRenderingContext2D} pen @param {(name: string) => string} colour @param {(offset: number) => number} x */
  ruler(pen, colour, x) {
    const raw = 110 / this.scale, power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
    const step = Math.max(1, (/** @type {number[]} */ ([1, 2, 5, 10]).find(each => each * power >= raw) ?? 10) * power);
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'center';
    for (let offset = Math.max(0, Math.ceil(this.left / step) * step); offset < this.left + this.span; offset += step) {
      pen.fillStyle = colour('line');
      pen.fillRect(x(offset), TOP + TALL, 1, 6);
      if (x(offset) < 14) continue; // cut off
      pen.fillStyle = colour('muted');
      pen.fillText(number(offset), x(offset), TOP + TALL + 18);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {(name: string) => string} colour @param {(offset: number) => number} x */
  lines(pen, colour, x) {
    const { log_start, end, stable } = this.bounds;
    const held = stable < end;
    pen.font = '600 11px system-ui, sans-serif';
    const line = (/** @type {number} */ offset, /** @type {string} */ text, /** @type {string} */ tint, /** @type {number} */ row, /** @type {CanvasTextAlign} */ align) => {
      const at = x(offset);
      if (at < -2 || at > this.width + 2) return;
      pen.fillStyle = tint;
      pen.fillRect(at - 1, 14 + row * 15, 2, TOP + TALL - 14 - row * 15 + 4);
      const room = pen.measureText(text).width + 8;
      pen.textAlign = align === 'left' && at + room > this.width ? 'right' : align === 'right' && at - room < 0 ? 'left' : align;
      pen.fillText(text, at + (pen.textAlign === 'left' ? 5 : -5), 14 + row * 15);
    };
    line(log_start, `log start ${number(log_start)}`, colour('muted'), 1, 'left');
    line(end, `high watermark ${number(end)}`, colour('ink'), 0, 'left');
    line(stable, `last stable offset ${number(stable)}`, held ? colour('open') : colour('committed'), 1, 'right');
    if (held && x(stable) < -2) {
      pen.fillStyle = colour('open');
      pen.textAlign = 'left';
      pen.fillText(`← last stable offset ${number(stable)}`, 4, 29);
    }
    pen.font = '11px system-ui, sans-serif';
    // Groups stand below, each on a line of its own where they would overlap.
    const taken = [-1e9, -1e9, -1e9];
    for (const group of this.options.groups()) {
      const at = x(group.offset);
      if (at < -2 || at > this.width + 2) continue;
      const text = `${group.id} ${number(group.offset)}`;
      const room = pen.measureText(text).width + 12;
      const isLeft = at + room < this.width;
      const begin = isLeft ? at : at - room;
      let row = taken.findIndex(each => each < begin);
      if (row < 0) row = taken.length - 1;
      taken[row] = begin + room;
      const y = TOP + TALL + 36 + row * 17;
      pen.fillStyle = colour('accent');
      pen.fillRect(at - 0.75, TOP + TALL, 1.5, y - TOP - TALL);
      pen.beginPath(); pen.arc(at, y, 3.5, 0, 7); pen.fill();
      pen.textAlign = isLeft ? 'left' : 'right';
      pen.fillText(text, at + (isLeft ? 7 : -7), y + 4);
    }
  }

  drawMap() {
    const { log_start, end, stable } = this.bounds;
    const paper = fresh(this.minimap, MAP_HEIGHT);
    if (!paper || end <= log_start) return;
    const { pen, colour } = paper;
    const width = this.minimap.clientWidth;
    const x = (/** @type {number} */ offset) => ((offset - log_start) / (end - log_start)) * width;
    pen.fillStyle = colour('ground');
    pen.fillRect(0, 4, width, MAP_HEIGHT - 8);
    const each_px = Math.max(2, width / Math.max(1, this.map.length));
    for (const batch of this.map) {
      pen.fillStyle = MARKERS.has(batch.outcome) ? colour('line') : colour(batch.outcome);
      pen.globalAlpha = 0.75;
      pen.fillRect(x(batch.first), 6, Math.max(each_px, x(batch.last + 1) - x(batch.first)), MAP_HEIGHT - 12);
    }
    pen.globalAlpha = 1;
    if (stable < end) { pen.fillStyle = colour('open'); pen.fillRect(x(stable), 2, 2, MAP_HEIGHT - 4); }
    pen.strokeStyle = colour('ink');
    pen.lineWidth = 1.5;
    const from = Math.max(0, x(this.left)), to = Math.min(width, x(this.left + this.span));
    pen.strokeRect(from + 1, 1, Math.max(5, to - from) - 2, MAP_HEIGHT - 2);
  }

  close() { this.resized.disconnect(); }
}

/** A canvas in the screen's own pixels. @param {HTMLCanvasElement} canvas @param {number} height */
function fresh(canvas, height) {
  const pen = canvas.getContext('2d');
  if (!pen) return null;
  const scale = devicePixelRatio || 1, width = canvas.clientWidth || 800;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  /** @type {Record<string, string>} */
  const known = {};
  return { pen, colour: (/** @type {string} */ name) => (known[name] ??= style.getPropertyValue(`--${name}`).trim()) };
}

/** A colour for each producer, a shade of it for each of its transactions. @param {Batch} batch */
function tint(batch) {
  const end = MARKERS.has(batch.outcome) ? batch.first : batch.ends_at ?? 0;
  const share = (end * 0.618) % 1; // neighbours differ
  return `hsl(${Math.round((Number(batch.producer) * 67 + 180 + 50 * share) % 360)} 55% ${Math.round(44 + 30 * share)}%)`;
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} w @param {number} tall @param {number} radius */
function box(pen, x, y, w, tall, radius) {
  pen.beginPath();
  pen.roundRect(x, y, w, tall, radius);
  pen.fill();
}

/** @param {CanvasRenderingContext2D} pen @param {string} colour @param {number} x @param {number} y @param {number} w @param {number} tall */
function hatch(pen, colour, x, y, w, tall) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, tall);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = x - tall; at < x + w; at += 8) { pen.moveTo(at, y + tall); pen.lineTo(at + tall, y); }
  pen.stroke();
  pen.restore();
}
