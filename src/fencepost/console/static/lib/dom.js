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
    if (name.startsWith('on')) listen(element, name, value);
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

/** Listeners of an element, by their property. @type {WeakMap<Element, Map<string, unknown>>} */
const listeners = new WeakMap();

/** @param {Element} element @param {string} name as `onclick` @param {unknown} listener */
function listen(element, name, listener) {
  const known = listeners.get(element) ?? new Map();
  listeners.set(element, known.set(name, listener));
  Reflect.set(element, name, listener);
}

/**
 * Like `show`, for what is drawn again and again: elements of the same kind stay and only change. So a click, the focus
 * and a selection outlive an update that comes in between.
 * @param {Element} element
 * @param {...(Child|Child[])} children
 */
export function refresh(element, ...children) {
  const made = document.createElement('div');
  append(made, children);
  become(element, made);
}

/** Takes over the children of `made`. @param {Element} element @param {Element} made */
function become(element, made) {
  const all = [...made.childNodes];
  all.forEach((wanted, index) => {
    const known = element.childNodes[index];
    if (!known) element.append(wanted);
    else if (known.nodeName !== wanted.nodeName) known.replaceWith(wanted);
    else if (known instanceof Element && wanted instanceof Element) turnInto(known, wanted);
    else if (known.nodeValue !== wanted.nodeValue) known.nodeValue = wanted.nodeValue;
  });
  while (element.childNodes.length > all.length) element.lastChild?.remove();
}

/** @param {Element} element @param {Element} wanted */
function turnInto(element, wanted) {
  for (const { name } of [...element.attributes]) if (!wanted.hasAttribute(name)) element.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (element.getAttribute(name) !== value && name !== 'style') element.setAttribute(name, value);
  if (element instanceof HTMLElement && wanted instanceof HTMLElement && element.style.cssText !== wanted.style.cssText) element.style.cssText = wanted.style.cssText;
  for (const name of listeners.get(element)?.keys() ?? []) listen(element, name, null);
  for (const [name, listener] of listeners.get(wanted) ?? []) listen(element, name, listener);
  become(element, wanted);
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
