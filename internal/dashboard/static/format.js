// Text of numbers and times, and small helpers for the page's elements.

const SVG = 'http://www.w3.org/2000/svg';

// h makes an element: props that begin with "on" are listeners, the others attributes; false and null are
// left out.
export function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (k === 'value') e.value = v;
    else e.setAttribute(k, v === true ? '' : v);
  }
  for (const c of children.flat(Infinity)) {
    if (c !== null && c !== undefined && c !== false) e.append(c);
  }
  return e;
}

// svg makes an element of SVG.
export function svg(tag, props, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(props || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// The states of cells: letter, name of the shape, words.
export const STATES = {
  f: { icon: 'final', text: 'final' },
  p: { icon: 'provisional', text: 'provisional' },
  b: { icon: 'backfill', text: 'needs backfill' },
};

// icon is one of the shapes; what it means stands beside it as text.
export function icon(name) {
  return svg('svg', { class: 'mark ' + name, 'aria-hidden': 'true' }, svg('use', { href: '#i-' + name }));
}

// state is the shape and the word of a state.
export function state(letter) {
  const s = STATES[letter] || STATES.p;
  return h('span', { class: 'state ' + s.icon }, icon(s.icon), s.text);
}

const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const few = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 });
const tiny = new Intl.NumberFormat('en', { notation: 'scientific', maximumFractionDigits: 2 });
const count = new Intl.NumberFormat('en');

// number is the text of a value: digits in groups, decimals with all the digits that they came with. brief
// leaves out digits of fractions that nobody reads at a glance.
export function number(v, brief) {
  if (v === null || v === undefined) return 'NULL';
  if (typeof v === 'number' && brief && Math.abs(v) >= 10) return few.format(v);
  if (typeof v === 'number') return Math.abs(v) < 1 && v !== 0 ? fine.format(v) : plain.format(v);
  if (typeof v === 'string' && /^-?\d+(\.\d+)?$/.test(v)) {
    const [whole, part] = v.split('.');
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ',');
    return part === undefined ? text : text + '.' + part;
  }
  return String(v);
}

export const counted = (n) => count.format(n);

// short is the text of a number on an axis.
export function short(v) {
  const size = Math.abs(v);
  if (size >= 1e15 || (size < 0.001 && v !== 0)) return tiny.format(v).toLowerCase();
  return size >= 10000 ? compact.format(v) : plain.format(v);
}

// toNumber is a value for a chart, null where there is none.
export function toNumber(v) {
  if (v === null || v === undefined) return null;
  const n = Number(v);
  return Number.isFinite(n) ? n : null;
}

// none stands for NULL, which is no text: texts that say the same are written in quotes.
export const none = () => h('span', { class: 'null', title: 'NULL: there is no value' }, 'NULL');

// figure shows a number, or that there is none.
export const figure = (v, brief) => (v === null || v === undefined ? none() : number(v, brief));

// quoted is a text as SQL writes it where it could be taken for NULL, for nothing, or for such a text.
const quoted = (s) => (s === '' || s[0] === "'" || s !== s.trim() || /^null$/i.test(s) ? "'" + s.replaceAll("'", "''") + "'" : s);

// cell is the text of any value of a table but NULL.
export function cell(v, column) {
  if (column.numeric) return number(v);
  if (typeof v !== 'string') return String(v);
  return /^(TIMESTAMP|DATE|TIME)/.test(column.type) ? v.replace(/^(\d{4}-\d{2}-\d{2} \d{2}:\d{2}):00$/, '$1') : quoted(v);
}

// named shows the name of a line or a bar: its parts are told apart, and a NULL from texts.
export function named(name) {
  const out = [];
  for (const [, part] of name.matchAll(/(?:^| \u00b7 )('(?:''|[^'])*'(?= \u00b7 |$)|[^]*?(?= \u00b7 |$))/g)) {
    if (out.length) out.push(h('span', { class: 'dim' }, ' \u00b7 '));
    out.push(part === 'NULL' ? none() : h('bdi', {}, part.slice(0, 200)));
  }
  return out;
}

const two = (n) => String(n).padStart(2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DAY = 86400000;

// Times of windows and watermarks are shown as the tables have them: without a time zone.
export const day = (ms) => { const d = new Date(ms); return MONTHS[d.getUTCMonth()] + '\u00a0' + d.getUTCDate(); };
export function clock(ms) {
  const d = new Date(ms);
  const s = d.getUTCSeconds();
  return two(d.getUTCHours()) + ':' + two(d.getUTCMinutes()) + (s ? ':' + two(s) : '');
}
export function time(ms) {
  const d = new Date(ms);
  return d.getUTCFullYear() + '-' + two(d.getUTCMonth() + 1) + '-' + two(d.getUTCDate()) + ' ' + clock(ms);
}

// span is the text of a window.
export function span(from, to) {
  if (to - from <= 1) return day(from) + ' ' + clock(from);
  const whole = from % DAY === 0 && to % DAY === 0;
  if (whole && to - from === DAY) return day(from);
  if (whole) return day(from) + ' \u2013 ' + day(to - DAY);
  const end = to % DAY === 0 && to - from <= DAY ? '24:00' : clock(to);
  if (Math.floor(from / DAY) === Math.floor((to - 1) / DAY)) return day(from) + ' ' + clock(from) + '\u2013' + end;
  return day(from) + ' ' + clock(from) + ' \u2013 ' + day(to) + ' ' + clock(to);
}

// age is how long ago, in one unit.
export function age(ms) {
  const s = Math.max(0, ms / 1000);
  for (const [unit, size, upTo] of [['s', 1, 90], ['min', 60, 5400], ['h', 3600, 172800], ['d', 86400, 63072000]]) {
    if (s < upTo) return Math.floor(s / size) + '\u00a0' + unit;
  }
  return Math.floor(s / 31557600) + '\u00a0y';
}
