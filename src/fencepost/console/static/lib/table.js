// @ts-check
// A table of any length: only the rows in sight are elements. Rows have one height; arrows and Enter work.

import { h, refresh } from './dom.js';

/**
 * @template T
 * @typedef {{title: string, width: string, cell: (row: T) => import('./dom.js').Child, sort?: (row: T) => any,
 *   number?: boolean, small?: boolean, tip?: string}} Column
 */

const ROW_PX = 34;
const SPARE = 6;

/** @template T */
export class Table {
  /**
   * @param {{columns: Column<T>[], key: (row: T) => string, open?: (row: T) => void, empty: string, label: string,
   *   order?: (a: T, b: T) => number, height?: string}} options
   */
  constructor(options) {
    this.options = options;
    /** @type {T[]} */
    this.rows = [];
    this.selected = '';
    this.sortBy = -1;
    this.isDown = false;
    const template = options.columns.map(each => each.width).join(' ');
    this.head = h('div.tr.head', { role: 'row', style: { 'grid-template-columns': template } }, options.columns.map((each, index) =>
      h(`button.th${each.number ? '.number' : ''}${each.small ? '.wide-only' : ''}`, { role: 'columnheader', title: each.tip ?? (each.sort ? 'Sort' : null), onclick: () => this.sort(index) }, each.title)));
    this.body = h('div.rows', { role: 'rowgroup' });
    this.space = h('div.space', { role: 'presentation' }, this.body);
    this.scroller = h('div.scroller', { tabindex: 0, role: 'presentation', onscroll: () => this.draw(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event), style: options.height ? { 'max-height': options.height } : {} }, this.head, this.space);
    this.element = h('div.table', { role: 'table', 'aria-label': options.label, style: { '--columns': template } }, this.scroller);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
  }

  /** @param {number} column */
  sort(column) {
    if (!this.options.columns[column].sort) return;
    this.isDown = this.sortBy === column ? !this.isDown : Boolean(this.options.columns[column].number);
    this.sortBy = column;
    this.head.querySelectorAll('.th').forEach((each, index) => each.setAttribute('aria-sort', index === column ? (this.isDown ? 'descending' : 'ascending') : 'none'));
    this.set(this.rows);
  }

  /** @param {T[]} rows */
  set(rows) {
    const by = this.options.columns[this.sortBy]?.sort;
    if (by) {
      const sign = this.isDown ? -1 : 1;
      rows = [...rows].sort((a, b) => { const x = by(a), y = by(b); return x === y ? 0 : x === null || x === undefined ? 1 : y === null || y === undefined ? -1 : x < y ? -sign : sign; });
    } else if (this.options.order) rows = [...rows].sort(this.options.order);
    this.rows = rows;
    this.space.style.height = `${rows.length * ROW_PX}px`;
    this.element.setAttribute('aria-rowcount', String(rows.length));
    this.draw();
  }

  draw() {
    if (!this.rows.length) {
      this.space.style.height = 'auto';
      refresh(this.body, h('p.empty', {}, this.options.empty));
      this.body.style.transform = '';
      return;
    }
    const height = this.scroller.clientHeight || 400;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - SPARE);
    const shown = this.rows.slice(first, first + Math.ceil(height / ROW_PX) + 2 * SPARE);
    this.body.style.transform = `translateY(${first * ROW_PX}px)`;
    refresh(this.body, shown.map((row, index) => this.row(row, first + index)));
  }

  /** @param {T} row @param {number} index */
  row(row, index) {
    const { columns, key, open } = this.options;
    const isSelected = key(row) === this.selected;
    const element = h(`div.tr${isSelected ? '.selected' : ''}${open ? '.opens' : ''}`, { role: 'row', 'aria-rowindex': index + 1, 'data-key': key(row), onclick: open && (() => { this.selected = key(row); open(row); this.draw(); }) },
      columns.map(each => h(`div.td${each.number ? '.number' : ''}${each.small ? '.wide-only' : ''}`, { role: 'cell' }, each.cell(row))));
    element.style.gridTemplateColumns = 'var(--columns)';
    return element;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const at = this.rows.findIndex(row => this.options.key(row) === this.selected);
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_PX) - 1);
    const moves = /** @type {Record<string, number>} */ ({ ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.rows.length - 1 });
    if (event.key in moves && this.rows.length) {
      const next = Math.max(0, Math.min(this.rows.length - 1, moves[event.key]));
      this.selected = this.options.key(this.rows[next]);
      const top = next * ROW_PX;
      if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
      if (top + 2 * ROW_PX > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top + 2 * ROW_PX - this.scroller.clientHeight;
      this.draw();
      event.preventDefault();
    } else if (event.key === 'Enter' && at >= 0 && this.options.open) {
      this.options.open(this.rows[at]);
      event.preventDefault();
    }
  }

  close() { this.resized.disconnect(); }
}
