// One tile: what it shows, and what says how far that can be trusted.
import { h, svg, icon, state, STATES, number, counted, toNumber, cell, span, time, clock, day, age } from './format.js';
import { Chart } from './chart.js';

// Tile keeps the elements of a tile while data comes.
export class Tile {
  constructor(spec, page) {
    this.spec = spec;
    this.page = page;
    this.heading = h('h2', { id: 'h-' + spec.id });
    this.badges = h('div', { class: 'badges' });
    this.tools = h('div', { class: 'tile-tools' });
    this.body = h('div', { class: 'body' });
    this.error = h('p', { class: 'tile-error', role: 'alert', hidden: true });
    this.note = h('p', { class: 'tile-note', hidden: true });
    this.trust = h('dl', { class: 'trust' });
    this.el = h('article', { class: 'tile kind-' + spec.kind + ' w' + (spec.width || defaultWidth(spec.kind)), 'data-id': spec.id, 'aria-labelledby': 'h-' + spec.id },
      h('header', {}, this.heading, this.badges, this.tools), this.error, this.body, this.note, this.trust);
    this.asTable = false;
    this.rows = new Map();
    this.body.append(h('p', { class: 'empty' }, 'reading\u2026'));
  }

  destroy() {
    if (this.chart) this.chart.destroy();
  }

  // set shows new data.
  set(d) {
    this.d = d;
    this.heading.textContent = this.spec.title || titleOf(this.spec, d);
    this.error.hidden = !d.error;
    this.error.textContent = d.error || '';
    this.note.hidden = !d.note;
    this.note.textContent = d.note || '';
    this.el.classList.toggle('stale', !!d.error);
    this.badge();
    const has = d.number || d.series || d.bars || d.table && d.table.rows.length;
    if (!has) {
      if (!d.error || !this.body.firstChild) this.replace(h('p', { class: 'empty' }, d.empty || (d.error ? 'nothing to show' : 'no rows yet')));
    } else if (d.number) this.number(d);
    else if (d.series) this.series(d);
    else if (d.bars) this.bars(d);
    else this.table(d);
    this.trustful();
  }

  replace(...els) {
    if (this.chart) {
      this.chart.destroy();
      this.chart = null;
    }
    this.scroller = null;
    this.body.replaceChildren(...els);
  }

  // badge says the state of the tile as a whole.
  badge() {
    const t = this.d.tally || {};
    const out = [];
    for (const [letter, n] of [['b', t.backfill], ['p', t.provisional], ['f', t.final]]) {
      if (!n) continue;
      const s = STATES[letter];
      const many = (t.backfill || 0) + (t.provisional || 0) + (t.final || 0) > 1;
      out.push(h('span', { class: 'state ' + s.icon }, icon(s.icon), (many ? counted(n) + ' ' : '') + (letter === 'b' && n > 1 ? 'need backfill' : s.text)));
    }
    if (this.d.idle) out.push(h('span', { class: 'state idle' }, icon('idle'), this.spec.kind === 'number' ? 'closed while a split was idle' : counted(this.d.idle) + (this.d.idle === 1 ? ' window' : ' windows') + ' closed while a split was idle'));
    const src = this.source();
    if (src && src.memory) out.push(h('span', { class: 'state unsealed' }, icon('unsealed'), 'unsealed'));
    this.badges.replaceChildren(...out);
  }

  source() {
    return this.page.sources.get(this.d && this.d.source);
  }

  number(d) {
    const n = d.number;
    const text = number(n.value, true);
    const was = this.shown;
    this.shown = text;
    const value = h('p', { class: 'big' + (was !== undefined && was !== text ? ' fresh' : '') }, h('span', { class: 'digits' }, text), d.unit ? [' ', h('span', { class: 'unit' }, d.unit)] : null);
    const when = n.timed ? span(n.from, n.to) + (n.windows > 1 ? ', ' + counted(n.windows) + ' windows' : '') : '';
    this.replace(value, h('p', { class: 'when' }, when, n.revision > 1 ? h('span', { class: 'dim' }, ' \u00b7 rev\u00a0' + n.revision) : null),
      n.spark && n.spark.length > 2 ? spark(n.spark, n.states) : '');
  }

  series(d) {
    if (this.asTable) {
      this.seriesTable(d);
      return;
    }
    if (!this.chart) {
      this.replace();
      this.chart = new Chart();
      this.body.append(this.chart.el);
    }
    this.chart.set(d);
    this.toggle('Table', 'Show the windows as a table');
  }

  toggle(text, label) {
    const had = document.activeElement && document.activeElement.classList.contains('toggle') && this.el.contains(document.activeElement);
    const b = h('button', { type: 'button', class: 'plain small toggle', 'aria-label': label + ': ' + this.heading.textContent, onclick: () => {
      this.asTable = !this.asTable;
      this.replace();
      this.set(this.d);
    } }, text);
    const old = this.badges.querySelector('.toggle');
    if (old) old.remove();
    this.badges.append(b);
    if (had) b.focus();
  }

  seriesTable(d) {
    const s = d.series;
    const columns = [{ name: 'window', role: 'start' }, ...s.lines.map((l) => ({ name: l.name || d.label, unit: d.unit, numeric: true }))];
    const rows = s.start.map((start, i) => ({
      head: span(start, s.end[i]), idle: s.idle[i] === '1', gen: s.gen[i],
      cells: s.lines.map((l) => ({ v: l.values[i], state: l.states[i], rev: l.revisions[i] })),
    })).reverse();
    const head = h('tr', {}, columns.map((c) => h('th', { scope: 'col', class: c.numeric ? 'num' : '' }, c.name, c.unit ? [' ', h('span', { class: 'unit' }, c.unit)] : null)), h('th', { scope: 'col' }, 'generation'));
    const body = rows.map((r) => h('tr', {}, h('th', { scope: 'row' }, r.head, r.idle ? h('span', { class: 'state idle' }, icon('idle'), 'idle split') : null),
      r.cells.map((c, i) => h('td', { class: 'num', 'data-label': columns[i + 1].name }, c.state === ' ' ? h('span', { class: 'dim' }, 'no row') : [number(c.v), ' ', state(c.state)])), h('td', { 'data-label': 'generation' }, r.gen)));
    this.scroll(h('thead', {}, head), h('tbody', {}, body));
    this.toggle('Chart', 'Show the windows as a chart');
  }

  bars(d) {
    const values = d.bars.map((b) => toNumber(b.value) || 0);
    const hi = Math.max(...values.map(Math.abs), 0) || 1;
    const list = h('ul', { class: 'bars' }, d.bars.map((b, i) => {
      const fill = h('i', { class: 'fill ' + (STATES[b.state] || STATES.p).icon + (values[i] < 0 ? ' minus' : '') });
      fill.style.width = (Math.abs(values[i]) / hi) * 100 + '%';
      return h('li', {}, h('span', { class: 'name', title: b.name.slice(0, 4000) }, b.name.slice(0, 200)), h('span', { class: 'track', 'aria-hidden': 'true' }, fill),
        h('span', { class: 'val' }, h('b', {}, number(b.value)), d.unit ? [' ', h('span', { class: 'unit' }, d.unit)] : null),
        state(b.state), b.idle ? h('span', { class: 'state idle' }, icon('idle'), 'idle split') : null);
    }));
    this.replace(list);
  }

  table(d) {
    const t = d.table;
    // The state stands behind the columns that say what the row is, where narrow screens show it.
    let lead = t.columns.findIndex((c) => c.role !== 'key' && c.role !== 'start' && c.role !== 'end');
    if (lead < 0) lead = t.columns.length;
    const title = (c) => h('th', { scope: 'col', class: c.numeric ? 'num' : '' }, c.name, c.unit ? [' ', h('span', { class: 'unit' }, c.unit)] : null);
    const head = h('tr', {}, t.columns.slice(0, lead).map(title), h('th', { scope: 'col' }, 'state'), t.columns.slice(lead).map(title),
      h('th', { scope: 'col', class: 'num' }, 'rev'), h('th', { scope: 'col' }, 'generation'));
    const keys = t.columns.map((c, i) => (c.role === 'key' || c.role === 'start' ? i : -1)).filter((i) => i >= 0);
    const known = this.rows;
    this.rows = new Map();
    const body = t.rows.map((r) => {
      const key = JSON.stringify(keys.map((i) => r.cells[i]));
      const text = JSON.stringify([r.cells, r.state, r.generation]);
      this.rows.set(key, text);
      const fresh = known.size > 0 && known.get(key) !== text;
      const cells = r.cells.map((v, i) => value(v, t.columns[i], i < lead));
      return h('tr', { class: fresh ? 'fresh' : null }, cells.slice(0, lead), h('td', {}, state(r.state), r.idle ? h('span', { class: 'state idle' }, icon('idle'), 'idle split') : null), cells.slice(lead),
        h('td', { class: 'num', 'data-label': 'rev' }, counted(r.revision || 0)), h('td', { 'data-label': 'generation' }, r.generation || ''));
    });
    this.scroll(h('thead', {}, head), h('tbody', {}, body));
  }

  // scroll shows a table in a box that keeps its place while rows come.
  scroll(...parts) {
    roles(parts);
    if (this.scroller && this.scroller.isConnected) {
      this.scroller.firstChild.replaceChildren(...parts);
      return;
    }
    const box = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Rows of ' + this.heading.textContent }, h('table', { role: 'table' }, ...parts));
    this.replace(box);
    this.scroller = box;
  }

  // trustful writes what says how far the numbers can be trusted. Nothing of it is ever hidden.
  trustful() {
    const src = this.source();
    if (!src || !this.d) {
      this.trust.replaceChildren();
      return;
    }
    const gens = this.d.generations && this.d.generations.length ? this.d.generations : [this.spec.generation || src.default];
    const main = gens.includes(src.default) ? src.default : gens[gens.length - 1];
    const p = src.progress[main];
    const topic = !!(src.held && src.held.topic);
    const items = [item('generation', gens.join(', ') + (topic && !this.spec.generation && p ? ', the newest of the topic' : ''), '')];
    const now = this.page.now();
    if (src.error && src.error !== this.d.error) items.push(item('', src.error, 'bad'));
    if (topic) {
      items.push(...ofTopic(src, p, now));
    } else if (p) {
      items.push(item('watermark', p.ended ? 'input ended' : p.watermark === undefined ? 'none yet' : when(p.watermark), ''));
      items.push(splits(p));
      if (p.expected) items.push(expected(p));
      items.push(item('source age', p.maxTime === undefined ? 'unknown' : age(now - p.maxTime), ''));
      items.push(item(src.memory ? 'last seen' : 'sealed', age(now - p.at) + ' ago', ''));
      const behind = [['late', p.late], ['rejected', p.rejected], ['duplicates', p.duplicates], ['stale', p.stale], ['conflicts', p.conflicts + (src.versionConflicts || 0)]];
      if (p.expired) behind.push(['expired', p.expired]);
      for (const [name, n] of behind) items.push(item(name, counted(n), n > 0 ? (name === 'conflicts' || name === 'rejected' ? 'bad count' : 'some count') : 'count'));
    } else {
      items.push(item('progress', 'not known: nothing was sealed yet', 'some'));
    }
    if (src.held) {
      const held = src.held;
      items.push(item('in memory', counted(held.keys) + ' of at most ' + counted(held.limit) + ' keys' + (held.dropped ? ', ' + counted(held.dropped) + ' older let go' : ''), held.dropped ? 'some' : ''));
    }
    this.trust.replaceChildren(...items);
  }
}

// value is a cell of a table. Long texts are cut, and whole in the title; where the tile is narrow the name of the
// column stands before what does not lead the row.
function value(v, column, leads) {
  const text = cell(v, column.numeric);
  const long = text.length > 80;
  return h('td', { class: column.numeric ? 'num' : v === null ? 'dim' : long ? 'long' : '', title: long ? text.slice(0, 4000) : null, 'data-label': leads ? null : column.name, 'data-unit': leads ? null : column.unit }, long ? text.slice(0, 200) : text);
}

// roles says what the parts of a table are also where the page shows them as something else.
function roles(parts) {
  for (const p of parts) {
    p.setAttribute('role', 'rowgroup');
    for (const r of p.children) {
      r.setAttribute('role', 'row');
      for (const c of r.children) c.setAttribute('role', c.tagName === 'TD' ? 'cell' : c.scope === 'row' ? 'rowheader' : 'columnheader');
    }
  }
  return parts;
}

const item = (name, text, cls) => h('div', { class: cls }, name ? h('dt', {}, name) : null, h('dd', {}, text));

// ofTopic is what a topic can say: it has revisions, and neither progress nor a pointer.
function ofTopic(src, p, now) {
  const held = src.held;
  const out = [];
  if (held.behind !== undefined) out.push(item('reading', held.behind >= 0 ? counted(held.behind) + ' records to go' : 'the topic from ' + (held.from || 'its beginning'), 'some'));
  if (p) {
    out.push(item('watermark', held.undated ? 'not in the rows' : p.ended ? 'input ended' : p.watermark === undefined ? 'none yet' : when(p.watermark) + ', that of the newest row', ''));
    out.push(item('newest row', age(now - p.at) + ' ago', ''));
    out.push(item('revisions', counted(p.rows), ''));
  }
  out.push(item('conflicts', counted(src.versionConflicts || 0), src.versionConflicts ? 'bad count' : 'count'));
  out.push(item('splits, late and rejected rows', 'not told by a topic', ''));
  if (held.from) out.push(item('read from', held.from, 'some'));
  return out;
}

// when is a point in time near others: the day and the minute.
const when = (ms) => day(ms) + ' ' + clock(ms);

function splits(p) {
  if (!p.splits) return item('splits', p.ended ? 'all read' : 'none yet', '');
  const ok = p.passed + p.done;
  const text = counted(Math.min(ok, p.splits)) + ' of ' + counted(p.splits) + ' passed';
  const names = p.idleSplits && p.idleSplits.length ? ': ' + p.idleSplits.slice(0, 2).join(', ') + (p.idle > 2 ? ', \u2026' : '') : '';
  return item('splits', p.idle ? text + ', ' + counted(p.idle) + ' idle' + names : text, p.idle ? 'some' : '');
}

function expected(p) {
  const lacking = p.expected - p.seen;
  const of = p.dueEnd ? ' for ' + span(p.dueStart, p.dueEnd) : '';
  if (p.dueRows) {
    const short = (p.missing || []).slice(0, 3).join(', ') + ((p.missing || []).length > 3 ? ', \u2026' : '');
    return item('rows', counted(p.seen) + ' of ' + counted(p.expected) + of + (short ? '; ' + short : ''), lacking !== 0 || short ? 'some' : '');
  }
  const names = (p.missing || []).slice(0, 3).join(', ') + (lacking > 3 || (p.missing || []).length > 3 ? ', \u2026' : '');
  return item('reported', counted(p.seen) + ' of ' + counted(p.expected) + of + (lacking > 0 ? (names ? ', missing ' + names : ', ' + counted(lacking) + ' missing') : ''), lacking > 0 ? 'some' : '');
}

export const defaultWidth = (kind) => ({ number: 1, series: 2, bars: 1, table: 2 })[kind] || 1;

// titleOf is the title of a tile that has none.
function titleOf(spec, d) {
  const what = spec.value || spec.table || (d.source || '').replace('@memory', '');
  return what + (spec.by && spec.by.length ? ' by ' + spec.by.join(', ') : '');
}

// spark is the course of a number: solid where final, dashed where provisional.
function spark(values, states) {
  const v = values.map(toNumber);
  const there = v.filter((x) => x !== null);
  const lo = Math.min(...there, 0);
  const hi = Math.max(...there);
  const w = 200;
  const top = 3;
  const tall = 34;
  const x = (i) => 2 + (i * (w - 4)) / Math.max(1, v.length - 1);
  const y = (n) => top + (tall - ((n - lo) / (hi - lo || 1)) * tall);
  const open = [...states].indexOf('p');
  const cut = open < 0 ? v.length : open;
  const path = (from, to) => {
    let out = '';
    for (let i = Math.max(0, from); i < to; i++) if (v[i] !== null) out += (out ? 'L' : 'M') + x(i).toFixed(1) + ' ' + y(v[i]).toFixed(1);
    return out;
  };
  const parts = [];
  if (cut > 1) parts.push(svg('path', { d: path(0, cut), class: 'line' }));
  if (cut < v.length) parts.push(svg('path', { d: path(cut - 1, v.length), class: 'line dashed' }));
  for (let i = 0; i < v.length; i++) {
    if (states[i] === 'b' && v[i] !== null) parts.push(svg('path', { d: `M${x(i)} ${y(v[i]) - 3.5}l3.5 6h-7z`, class: 'warn' }));
  }
  return svg('svg', { class: 'spark', viewBox: `0 0 ${w} ${tall + 6}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'the last ' + v.length + ' windows, from ' + number(there[0]) + ' to ' + number(there[there.length - 1]) }, ...parts);
}

// sourcePanel says where the numbers of a source come from.
export function sourcePanel(src) {
  const gens = src.generations || [];
  const ranges = src.ranges || [];
  const serves = (name) => {
    const out = ranges.filter((r) => r.generation === name).map((r) => (r.from === undefined ? 'the beginning' : time(r.from)) + ' to ' + (r.to === undefined ? 'the end' : time(r.to)));
    if (name === src.default) out.push(ranges.length ? 'all other windows' : 'all windows');
    return out.join('; ') || 'nobody sees it';
  };
  const heads = ['generation', 'shown for windows from', 'has windows', 'keys', 'revisions', 'reconciled'];
  const row = (g) => h('tr', {}, h('th', { scope: 'row' }, g.name), [serves(g.name), g.first < g.last || g.keys && g.first === g.last ? time(g.first) + ' \u2013 ' + time(g.last) : '', counted(g.keys), counted(g.revisions), g.reconciled ? 'yes' : 'no']
    .map((x, i) => h('td', { class: i === 2 || i === 3 ? 'num' : '', 'data-label': heads[i + 1] }, x)));
  return h('div', { class: 'source' }, h('h2', {}, src.table, src.memory ? h('span', { class: 'state unsealed' }, icon('unsealed'), 'unsealed, from memory') : null,
    h('span', { class: 'dim' }, src.memory ? '' : src.held && src.held.topic ? 'a topic: its newest generation is shown' : 'pointer version ' + src.pointer)),
    gens.length ? h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Generations of ' + src.table }, h('table', { role: 'table' }, ...roles([h('thead', {}, h('tr', {}, heads.map((x, i) => h('th', { scope: 'col', class: i === 3 || i === 4 ? 'num' : '' }, x)))), h('tbody', {}, gens.map(row))]))) : h('p', { class: 'empty' }, src.error || 'no generation has rows yet'));
}
