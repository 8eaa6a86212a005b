// @ts-check
// The live channels. Keeps the rows of each, merges what changed, and knows how old everything is.

/** @typedef {{rows: Map<string, any>, head: any, version: number}} Channel */

const SILENT_MS = 6000;

export class Live {
  constructor() {
    /** @type {Map<string, Channel>} */
    this.channels = new Map();
    /** @type {(channel: string) => void} */
    this.changed = () => {};
    /** The console answers again, or refuses: it may be another one. @type {() => void} */
    this.returned = () => {};
    /** @type {EventSource|null} */
    this.source = null;
    this.wanted = '';
    this.isOpen = true; // until we know better
    this.heardAt = performance.now();
    this.skew = 0;
    // Browsers open six connections to a host, for all tabs together: a tab that nobody sees lets go of its own.
    document.addEventListener('visibilitychange', () => { if (document.hidden) this.close(); else if (this.wanted) this.watch(this.wanted.split(',')); });
  }

  /** The server's clock. */
  get now() { return Date.now() + this.skew; }

  /** Whether the console itself went silent. */
  get isLost() { return !this.isOpen || performance.now() - this.heardAt > SILENT_MS; }

  /** @param {string[]} channels */
  watch(channels) {
    const wanted = [...channels].sort().join(',');
    if (this.source && wanted === this.wanted) return;
    this.wanted = wanted;
    this.close();
    if (document.hidden) return;
    this.heardAt = performance.now();
    const source = new EventSource(`/api/events?channels=${encodeURIComponent(wanted)}`);
    source.addEventListener('open', () => {
      if (!this.isOpen) this.returned();
      this.isOpen = true;
      this.heardAt = performance.now();
      this.changed('health');
    });
    source.addEventListener('error', () => {
      this.isOpen = false;
      this.changed('health');
      if (source.readyState !== EventSource.CLOSED) return;
      // A refused stream is closed for good by the browser: find out why, and try again.
      this.returned();
      setTimeout(() => { if (this.source === source) { this.source = null; this.watch(wanted.split(',')); } }, 2000);
    });
    source.addEventListener('update', event => {
      const began = performance.now();
      this.merge(JSON.parse(event.data));
      performance.measure('update', { start: began });
    });
    source.addEventListener('beat', event => {
      this.heardAt = performance.now();
      this.skew = Number(event.data) - Date.now();
    });
    this.source = source;
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  /** @param {{channel: string, version: number, whole: boolean, rows: Record<string, any>, gone: string[], head: any}} update */
  merge(update) {
    this.heardAt = performance.now();
    let known = this.channels.get(update.channel);
    if (!known || update.whole) {
      known = { rows: new Map(), head: {}, version: 0 };
      this.channels.set(update.channel, known);
    }
    for (const key of update.gone) known.rows.delete(key);
    for (const [key, row] of Object.entries(update.rows)) known.rows.set(key, row);
    known.head = update.head;
    known.version = update.version;
    this.changed(update.channel);
  }

  /** @param {string} channel @returns {any[]} */
  rows(channel) { return [...(this.channels.get(channel)?.rows.values() ?? [])]; }

  /** @param {string} channel @param {string} key */
  row(channel, key) { return this.channels.get(channel)?.rows.get(key); }

  /** @param {string} channel */
  head(channel) { return this.channels.get(channel)?.head ?? {}; }

  /** @param {string} channel */
  has(channel) { return this.channels.has(channel); }

  /** @param {string} channel @returns {import('./types.js').Health|undefined} */
  health(channel) { return this.channels.get('health')?.rows.get(channel); }
}
