// @ts-check
// Numbers, sizes and times for people. Pure.

const NUMBER = new Intl.NumberFormat('en');

/** @param {number|null|undefined} value */
export const number = value => (value === null || value === undefined ? '–' : NUMBER.format(value));

/** @param {number} count @param {string} noun */
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? '' : 's'}`;

/** @param {number|null|undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A span of time. @param {number|null|undefined} ms */
export function span(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return twoUnits(Math.round(seconds), 60, 'min', 's');
  if (seconds < 172800) return twoUnits(Math.round(seconds / 60), 60, 'h', 'min');
  return `${Math.round(seconds / 86400)} d`;
}

/** @param {number} value in the smaller unit @param {number} each of them make a larger one @param {string} large @param {string} small */
const twoUnits = (value, each, large, small) => `${Math.floor(value / each)} ${large}${value % each ? ` ${value % each} ${small}` : ''}`;

/** @param {number|null|undefined} ms */
export function rate(ms) {
  if (ms === null || ms === undefined) return '–';
  return ms >= 100 ? NUMBER.format(Math.round(ms)) : ms >= 10 ? ms.toFixed(0) : ms.toFixed(1);
}

/** The time of day; with the date if it is not today. @param {number|null|undefined} ms */
export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return '–';
  const date = new Date(ms);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
  return date.toDateString() === new Date().toDateString() ? time : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** @param {number} value */
const two = value => String(value).padStart(2, '0');

/** @param {number|null} count @param {boolean} exact */
export const atMost = (count, exact) => (count === null ? '?' : `${exact || !count ? '' : '≤ '}${number(count)}`);

/** @param {import('./types.js').Bytes|null} found */
export function text(found) {
  if (found === null) return '∅';
  if (found.text !== undefined) return found.text;
  return `0x${hex(found.base64 ?? '')}`;
}

/** @param {string} base64 */
export function hex(base64) {
  return Array.from(atob(base64), each => each.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

/** JSON with line breaks, if it is JSON. @param {import('./types.js').Bytes|null} found */
export function pretty(found) {
  const plain = text(found);
  if (!found || found.text === undefined || !/^\s*[[{]/.test(found.text)) return plain;
  try {
    JSON.parse(found.text);
  } catch {
    return plain;
  }
  return indented(found.text);
}

/**
 * Only white space changes: reading and writing it again would round long numbers and drop repeated names.
 * @param {string} json which is well-formed
 */
function indented(json) {
  let depth = 0, before = '', shown = '';
  for (const token of json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? []) {
    const isEnd = token === '}' || token === ']';
    const isAfterBegin = before === '{' || before === '[';
    if (isEnd) depth -= 1;
    if (before === ',' || isAfterBegin !== isEnd) shown += `\n${'  '.repeat(depth)}`;
    shown += token === ':' ? ': ' : token;
    if (token === '{' || token === '[') depth += 1;
    before = token;
  }
  return shown;
}
