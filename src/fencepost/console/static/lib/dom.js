// @ts-check
// Elements from plain values. Text is only ever set as text, so nothing that a record holds becomes markup.

/** @typedef {Node|string|number|null|undefined|false} Child */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * `h('td.number', {title: 'offset'}, 12)`; `on…` are listeners, `style` sets properties one by one.
 * @param {string} what a tag with classes
 * @param {Record<string, any>} [properties]
 * @param {...(Child|Child[])} children
 * @returns {HTMLElement}
 */
export function h(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split('.');
  return /** @type {HTMLElement} */ (fill(document.createElement(tag || 'div'), classes, properties, children));
}

/**
 * @param {string} what
 * @param {Record<string, any>} [properties]
 * @param {...(Child|Child[])} children
 * @returns {SVGElement}
 */
export function s(what, properties = {}, ...children) {
  const [tag, ...classes] = what.split('.');
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), classes, properties, children));
}

/**
 * @param {Element & ElementCSSInlineStyle} element
 * @param {string[]} classes
 * @param {Record<string, any>} properties
 * @param {(Child|Child[])[]} children
 */
function fill(element, classes, properties, children) {
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === 'style') for (const [key, each] of Object.entries(value)) element.style.setProperty(key, String(each));
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {(Child|Child[])[]} children
 */
function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * @param {Element} element
 * @param {...(Child|Child[])} children
 */
export function show(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no #${id}`);
  return found;
}

/**
 * @param {string} path
 * @param {Record<string, string|number|null|undefined>} [params]
 */
export function href(path, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value !== null && value !== undefined && value !== '') query.set(key, String(value));
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

/**
 * @param {string} path
 * @param {Record<string, string|number|null|undefined>} params
 * @param {...Child} children
 */
export function link(path, params, ...children) {
  return h('a', { href: href(path, params) }, ...children);
}
