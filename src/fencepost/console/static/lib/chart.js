// @ts-check
// Small drawings of values over time, as SVG.

import { h, s } from './dom.js';
import { moment, number } from './format.js';

/** @param {(number|null)[]} values */
export function spark(values, width = 120, height = 24) {
  const known = values.map(each => each ?? 0);
  const top = Math.max(1, ...known);
  const step = width / Math.max(1, known.length - 1);
  const points = known.map((each, index) => `${(index * step).toFixed(1)},${(height - 2 - (each / top) * (height - 4)).toFixed(1)}`);
  return s('svg.spark', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `from ${number(known[0])} to ${number(known[known.length - 1])}` },
    s('polyline', { points: points.join(' ') }));
}

/**
 * @param {[number, number][]} points time and value
 * @param {{label: string, unit?: string}} options
 */
export function area(points, options) {
  const width = 720, height = 160, left = 56, bottom = 18;
  if (points.length < 2) return h('p.empty', {}, `${options.label}: not enough was measured yet`);
  const [from, to] = [points[0][0], points[points.length - 1][0]];
  const top = niceTop(Math.max(1, ...points.map(each => each[1])));
  const x = (/** @type {number} */ time) => left + ((time - from) / Math.max(1, to - from)) * (width - left - 8);
  const y = (/** @type {number} */ value) => 8 + (1 - value / top) * (height - bottom - 8);
  const line = points.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  const rules = [0, 0.5, 1].map(share => s('g', {},
    s('line.rule', { x1: left, x2: width - 8, y1: y(share * top), y2: y(share * top) }),
    s('text', { x: left - 8, y: y(share * top) + 4, 'text-anchor': 'end' }, number(share * top))));
  return s('svg.area', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${options.label}: now ${number(points[points.length - 1][1])}` },
    rules,
    s('polygon', { points: `${x(from)},${y(0)} ${line} ${x(to)},${y(0)}` }),
    s('polyline', { points: line }),
    s('text', { x: left, y: height - 2 }, moment(from).slice(0, 8)),
    s('text', { x: width - 8, y: height - 2, 'text-anchor': 'end' }, moment(to).slice(0, 8)));
}

/** The next 1, 2 or 5 times a power of ten. @param {number} value */
export function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 5, 10].find(each => each * power >= value) ?? 10;
  return found * power;
}
