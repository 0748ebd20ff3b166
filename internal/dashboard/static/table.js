// Tables: pages of rows, with how far each can be trusted, and the windows of a chart as rows.
import { h, icon, state, counted, cell, figure, none, named, span } from './format.js';

const WINDOWS = 100; // a page of the windows of a chart

// Pager turns pages: which rows of how many are shown, and to the first, the previous, the next and the last page.
export class Pager {
  constructor(what, turn) {
    this.what = what;
    this.turn = turn;
    this.text = h('span', { class: 'place', role: 'status' });
    this.buttons = [['\u00ab', 'First'], ['\u2039', 'Previous'], ['\u203a', 'Next'], ['\u00bb', 'Last']].map(([sign, name], i) =>
      h('button', { type: 'button', class: 'plain small', title: name + ' page', 'aria-label': name + ' page of ' + what(), onclick: () => this.go(i) }, sign));
    this.el = h('nav', { class: 'pager', 'aria-label': 'Pages of ' + what() }, this.text, h('span', { class: 'turns' }, this.buttons));
  }

  // set says which rows are shown: shown rows from a place, in pages of a size, of so many; those from reach on cannot be turned to.
  set({ from, shown, size, total, more, reach, unit }) {
    Object.assign(this, { from, size });
    this.last = Math.max(0, Math.floor((Math.min(total, reach) - 1) / size) * size);
    if (this.last + size > reach) this.last = Math.max(0, this.last - size);
    const all = (more ? 'more than ' : '') + counted(total) + ' ' + unit + (total === 1 && !more ? '' : 's');
    const text = shown === 0 ? all : from === 0 && shown >= total ? all : counted(from + 1) + '\u2013' + counted(from + shown) + ' of ' + all;
    // What a status says is read aloud: only when it is another one.
    if (this.text.textContent !== text) this.text.textContent = text;
    // A button that has the focus keeps it, so none is disabled.
    this.buttons.forEach((b, i) => b.setAttribute('aria-disabled', String(i < 2 ? from <= 0 : from >= this.last)));
    this.el.classList.toggle('one', this.last === 0 && from === 0);
  }

  go(i) {
    const to = [0, Math.max(0, this.from - this.size), Math.min(this.last, this.from + this.size), this.last][i];
    if (to !== this.from) this.turn(to);
  }
}

// title is the head of a column.
const title = (c) => h('th', { scope: 'col', class: c.numeric ? 'num' : '' }, c.key ? named(c.name) : c.name, c.unit ? [' ', h('span', { class: 'unit' }, c.unit)] : null);

// idle marks a window that closed while a split was idle.
const idle = () => h('span', { class: 'state idle', title: 'The window closed while a split was idle: rows of it may be missing.' }, icon('idle'), 'idle split');

// RowsTable shows pages of rows, and keeps the elements of those that stay as they are.
export class RowsTable {
  constructor(name, turn) {
    this.rows = new Map();
    this.table = h('table', { role: 'table' });
    this.box = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Rows of ' + name() }, this.table);
    this.pager = new Pager(name, turn);
    this.els = [this.box, this.pager.el];
  }

  // set shows a page of rows.
  set(t) {
    const columns = JSON.stringify(t.columns);
    if (columns !== this.columns) this.begin(t, columns);
    const was = this.rows;
    const before = this.from;
    if (before !== t.from) this.box.scrollTop = 0;
    const keys = t.columns.map((c, i) => (c.role === 'key' || c.role === 'start' ? i : -1)).filter((i) => i >= 0);
    this.rows = new Map();
    const els = t.rows.map((r) => {
      let key = JSON.stringify(keys.map((i) => r.cells[i]));
      const text = JSON.stringify(r);
      if (this.rows.has(key)) key = text + this.rows.size; // the columns shown do not tell rows apart
      const old = was.get(key);
      let el = old && old.text === text ? old.el : null;
      if (!el) el = this.row(r, t.columns, was.size > 0 && before === t.from);
      this.rows.set(key, { text, el });
      return el;
    });
    this.place(els);
    this.from = t.from;
    this.pager.set({ from: t.from, shown: t.rows.length, size: t.size, total: t.total, more: t.more, reach: t.reach, unit: 'row' });
  }

  // begin makes the table for its columns. The state stands behind those that say what the row is, where narrow
  // screens show it.
  begin(t, columns) {
    this.columns = columns;
    this.rows = new Map();
    this.lead = t.columns.findIndex((c) => c.role !== 'key' && c.role !== 'start' && c.role !== 'end');
    if (this.lead < 0) this.lead = t.columns.length;
    const head = h('tr', {}, t.columns.slice(0, this.lead).map(title), h('th', { scope: 'col' }, 'state'), t.columns.slice(this.lead).map(title),
      h('th', { scope: 'col', class: 'num' }, 'rev'), h('th', { scope: 'col' }, 'generation'));
    this.body = h('tbody', { role: 'rowgroup' });
    this.table.replaceChildren(...roles([h('thead', {}, head)]), this.body);
  }

  // place puts rows into the table, and moves only those that have to.
  place(els) {
    const there = new Set(els);
    for (const el of [...this.body.children]) if (!there.has(el)) el.remove();
    let at = this.body.firstChild;
    for (const el of els) {
      if (el === at) at = at.nextSibling;
      else this.body.insertBefore(el, at);
    }
  }

  row(r, columns, fresh) {
    const cells = r.cells.map((v, i) => value(v, columns[i], i < this.lead));
    const tr = h('tr', { class: fresh ? 'fresh' : null }, cells.slice(0, this.lead), h('td', {}, state(r.state), r.idle ? idle() : null), cells.slice(this.lead),
      h('td', { class: 'num', 'data-label': 'rev' }, counted(r.revision || 0)), h('td', { 'data-label': 'generation' }, r.generation || ''));
    if (fresh) tr.addEventListener('animationend', () => tr.classList.remove('fresh'), { once: true });
    rolesOf(tr);
    return tr;
  }
}

// value is a cell of a table. Long texts are cut, and whole in the title; where the tile is narrow the name of the
// column stands before what does not lead the row.
function value(v, column, leads) {
  const props = { class: column.numeric ? 'num' : '', 'data-label': leads ? null : column.name, 'data-unit': leads || v === null ? null : column.unit };
  if (v === null || v === undefined) return h('td', props, none());
  const text = cell(v, column);
  if (text.length <= 80) return h('td', props, h('bdi', {}, text));
  return h('td', { ...props, class: props.class || 'long', title: text.slice(0, 4000) }, h('bdi', {}, text.slice(0, 200)));
}

// WindowsTable shows the windows of a chart as rows, the newest first.
export class WindowsTable {
  constructor(name) {
    this.from = 0;
    this.table = h('table', { role: 'table' });
    this.box = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Windows of ' + name() }, this.table);
    this.pager = new Pager(name, (from) => {
      this.from = from;
      this.box.scrollTop = 0;
      this.set(this.d);
    });
    this.els = [this.box, this.pager.el];
  }

  set(d) {
    this.d = d;
    const s = d.series;
    const n = s.start.length;
    if (this.from >= n) this.from = Math.floor(Math.max(0, n - 1) / WINDOWS) * WINDOWS;
    const columns = s.lines.map((l) => ({ name: l.name || d.label, key: !!l.name, unit: d.unit, numeric: true }));
    const head = h('tr', {}, title({ name: 'window' }), columns.map(title), title({ name: 'generation' }));
    const rows = [];
    for (let i = n - 1 - this.from; i >= 0 && rows.length < WINDOWS; i--) {
      rows.push(h('tr', {}, h('th', { scope: 'row' }, span(s.start[i], s.end[i]), s.idle[i] === '1' ? idle() : null),
        s.lines.map((l, k) => h('td', { class: 'num', 'data-label': columns[k].name, 'data-unit': l.states[i] === ' ' ? null : d.unit }, l.states[i] === ' ' ? h('span', { class: 'dim' }, 'no row') : [figure(l.values[i]), ' ', state(l.states[i])])),
        h('td', { 'data-label': 'generation' }, s.gen[i])));
    }
    this.table.replaceChildren(...roles([h('thead', {}, head), h('tbody', {}, rows)]));
    this.pager.set({ from: this.from, shown: rows.length, size: WINDOWS, total: n, reach: n, unit: 'window' });
  }
}

// roles says what the parts of a table are also where the page shows them as something else.
export function roles(parts) {
  for (const p of parts) {
    p.setAttribute('role', 'rowgroup');
    for (const r of p.children) rolesOf(r);
  }
  return parts;
}

function rolesOf(row) {
  row.setAttribute('role', 'row');
  for (const c of row.children) c.setAttribute('role', c.tagName === 'TD' ? 'cell' : c.scope === 'row' ? 'rowheader' : 'columnheader');
}
