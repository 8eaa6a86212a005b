// @ts-check
// Questions to the server. Errors have the server's own words.

export class Problem extends Error {
  /** @param {string} text @param {number} status */
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

let secret = '';
/** @param {string} value */
export const setSecret = value => { secret = value; };

/**
 * @param {string} name
 * @param {Record<string, string|number|null|undefined>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(name, params = {}, signal) {
  return read(await reach(`/api/${name}${query(params)}`, { signal }));
}

/** @param {string} name @param {object} body @returns {Promise<any>} */
export async function change(name, body) {
  const headers = { 'content-type': 'application/json', 'x-fencepost-change': secret };
  return read(await reach(`/api/${name}`, { method: 'POST', headers, body: JSON.stringify(body) }));
}

/** @param {Record<string, string|number|null|undefined>} params */
export function query(params) {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== '') found.set(key, String(value));
  const text = found.toString();
  return text ? `?${text}` : '';
}

/** @param {string} url @param {RequestInit} options */
async function reach(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem('The console itself does not answer.', 0);
  }
}

/** @param {Response} answer */
async function read(answer) {
  if (answer.status === 401) {
    location.assign('/login');
    throw new Problem('Log in first.', 401);
  }
  const found = await answer.json().catch(() => ({ problem: `The console failed (${answer.status}).` }));
  if (!answer.ok) throw new Problem(found.problem ?? answer.statusText, answer.status);
  return found;
}
