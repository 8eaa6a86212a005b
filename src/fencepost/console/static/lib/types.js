// @ts-check
// What the server sends, as fencepost.console.shapes makes it. Times are milliseconds since 1970.

/** @typedef {{topic: string, partition: number}} Place */
/** @typedef {'plain'|'committed'|'aborted'|'open'|'undecided'|'commit'|'abort'|'control'} Outcome */
/** @typedef {{text?: string, base64?: string, size: number, cut?: boolean}} Bytes */
/** @typedef {Place & {log_start: number, stable: number, end: number}} Bounds */
/**
 * @typedef {{id: string, producer: number, epoch: number, state: string, open: boolean, start_ms: number|null,
 *   timeout_ms: number, deadline_ms: number|null, partitions: number, topics: string[], coordinator: number,
 *   pipeline: string|null, where?: Place[]}} Transaction
 */
/**
 * @typedef {{key: string, id: string, producer: number, epoch: number, timeout_ms: number, start_ms: number,
 *   decided_ms: number|null, ended_ms: number|null, duration_ms: number|null, ending: 'committed'|'aborted'|null,
 *   partitions: number, pipeline: string|null, steps?: {time_ms: number, state: string, partitions: number}[],
 *   where?: Place[]}} Story
 */
/**
 * @typedef {{first: number, last: number, count: number, bytes: number, time_ms: number, outcome: Outcome,
 *   producer?: number, epoch?: number, ends_at?: number}} Batch
 */
/**
 * @typedef {{offset: number, time_ms: number, key: Bytes|null, value: Bytes|null, headers: [string, Bytes|null][],
 *   outcome: Outcome, producer?: number, epoch?: number, ends_at?: number|null}} LogRecord
 */
/**
 * @typedef {Batch & {first_ms: number, compression: string, leader_epoch: number, sequence: number,
 *   transactional: boolean, append_time: boolean, crc: string, records: LogRecord[]}} FullBatch
 */
/** @typedef {{bounds: Bounds, batches: Batch[], next: number, last: boolean}} Window_ */
/**
 * @typedef {Place & {first: number|null, last: number|null, records: number, bytes: number, outcome: Outcome|null,
 *   ends_at: number|null, commits: (Place & {group: string, offset: number})[], problem: string}} Part
 */
/**
 * @typedef {{id: string, state: string, members: number|null, protocol: string, topics: string[],
 *   partitions: number, lag: number|null, exact: boolean, held: number, oldest_s: number|null, trend?: number[]}} Group
 */
/**
 * @typedef {Place & {committed: number|null, place: string, records: number|null, counted: string,
 *   oldest_ms: number|null, held: number, problem: string, stable: number|null, end: number|null}} GroupLag
 */
/**
 * @typedef {{name: string, internal: boolean, offsets: number, end: number, held: number, held_offsets: number,
 *   partitions: number, replication: number, silent: number, bytes: number|null, rate: number|null}} Topic
 */
/** @typedef {{id: string, client: string, host: string}} Member */
/**
 * @typedef {{cause: string, what: string, ends: string, client: string|null, producer: number|null,
 *   epoch: number|null, transaction: Transaction|null, since_ms: number|null, ends_ms: number|null, waiting: number,
 *   exact: boolean, partitions: (Bounds & {start: number|null, waiting: number|null, aborted: number|null,
 *   undecided: number|null})[], owners: {group: string, members: Member[]|null}[]}} Hold
 */
/**
 * @typedef {{group: string, state: string, waiting: boolean, place: string, misses: number, exact: boolean,
 *   lag: number|null, lag_exact: boolean, members: Member[]|null, lags: GroupLag[]}} Reader
 */
/**
 * @typedef {{topic: string|null, partition: number|null, now_ms: number, verdict: string, headline: string,
 *   holds: Hold[], stopped: (Place & {trouble: string, text: string})[], readers: Reader[], partitions: number,
 *   similar: string[], missing: string[]}} Explanation
 */
/**
 * @typedef {{way: string, cause: string, producer: number, epoch: number, id: string|null, refusal: string|null,
 *   live: boolean, has_offsets: boolean, undone: (Place & {first: number, last: number|null, records: number|null,
 *   exact: boolean})[]}} Plan
 */
/** @typedef {{condition: 'loading'|'good'|'failing', problem: string, good_ms: number|null, took_ms: number|null}} Health */
/** @typedef {{change_secret: string, may_change: boolean, cluster: string, has_login: boolean, version: string, now_ms: number}} Session */
/** @typedef {Record<string, string>} Params */
/**
 * A view owns the content while it is shown.
 * @typedef {{update?: (channel: string) => void, tick?: () => void, key?: (event: KeyboardEvent) => boolean,
 *   unmount?: () => void}} Mounted
 */
/** @typedef {{live: import('./live.js').Live, session: Session, go: (path: string, params?: Params) => void}} Context */
/**
 * @typedef {{name: string, title: string, channels: string[], hidden?: boolean,
 *   mount: (root: HTMLElement, params: Params, context: Context) => Mounted}} View
 */

export {};
