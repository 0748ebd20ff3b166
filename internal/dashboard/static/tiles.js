// One tile: what it shows, and what says how far that can be trusted.
import { h, svg, icon, state, STATES, number, figure, named, counted, toNumber, span, time, clock, day, age } from './format.js';
import { Chart } from './chart.js';
import { RowsTable, WindowsTable, roles } from './table.js';

// Tile keeps the elements of a tile while data comes.
export class Tile {
  constructor(spec, page) {
    this.spec = spec;
    this.page = page;
    this.heading = h('h2', { id: 'h-' + spec.id });
    this.badges = h('div', { class: 'badges' });
    this.states = h('span', { class: 'states' });
    this.badges.append(this.states);
    this.tools = h('div', { class: 'tile-tools' });
    this.body = h('div', { class: 'body' });
    this.error = h('p', { class: 'tile-error', role: 'alert', hidden: true });
    this.note = h('p', { class: 'tile-note', hidden: true });
    this.trust = h('dl', { class: 'trust' });
    this.el = h('article', { class: 'tile kind-' + spec.kind + ' w' + (spec.width || defaultWidth(spec.kind)), 'data-id': spec.id, 'aria-labelledby': 'h-' + spec.id },
      h('header', {}, this.heading, this.badges, this.tools), this.error, this.body, this.note, this.trust);
    this.asTable = false;
    this.from = 0; // the first row of the page of a table
    this.body.append(h('p', { class: 'empty' }, 'reading\u2026'));
  }

  destroy() {
    if (this.chart) this.chart.destroy();
  }

  // set takes new data of the tile, which has the first page of a table.
  set(d) {
    this.first = d;
    if (this.from && !d.error) this.turn(this.from);
    else this.show(this.from && this.d ? { ...this.d, error: d.error, remedy: d.remedy } : d);
  }

  show(d) {
    this.d = d;
    this.heading.textContent = this.spec.title || titleOf(this.spec, d);
    this.error.hidden = !d.error;
    this.error.replaceChildren(d.error || '', d.remedy ? h('span', { class: 'remedy' }, d.remedy) : '');
    this.note.hidden = !d.note;
    this.note.textContent = d.note || '';
    this.el.classList.toggle('stale', !!d.error);
    this.badge();
    const has = d.number || d.series || d.bars || d.table && d.table.rows.length;
    if (!has) {
      if (!d.error || !this.showing) this.replace(h('p', { class: 'empty' }, d.empty || (d.error ? 'nothing to show' : 'no rows yet')));
    } else if (d.number) this.number(d);
    else if (d.series) this.series(d);
    else if (d.bars) this.bars(d);
    else this.table(d);
    this.showing = true;
    this.trustful();
  }

  replace(...els) {
    if (this.chart) {
      this.chart.destroy();
      this.chart = null;
    }
    this.shows = null;
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
      const text = (many ? counted(n) + ' ' : '') + (letter === 'b' && n > 1 ? 'need backfill' : s.text);
      // What is to be done about it stands with the table.
      out.push(letter === 'b' ? h('a', { class: 'state backfill', href: '#source-' + encodeURIComponent(this.d.source), title: 'Rows came after the state of these windows was gone, so their numbers lack them. Go to what to do.' }, icon(s.icon), text)
        : h('span', { class: 'state ' + s.icon, title: s.long }, icon(s.icon), text));
    }
    if (this.d.idle) out.push(h('span', { class: 'state idle' }, icon('idle'), this.spec.kind === 'number' ? 'closed while a split was idle' : counted(this.d.idle) + (this.d.idle === 1 ? ' window' : ' windows') + ' closed while a split was idle'));
    const src = this.source();
    if (src && src.memory) out.push(h('span', { class: 'state unsealed' }, icon('unsealed'), 'unsealed'));
    // What has the focus keeps it while the numbers change.
    const text = out.map((e) => e.outerHTML).join('');
    if (text === this.stated) return;
    this.stated = text;
    const had = this.states.contains(document.activeElement);
    this.states.replaceChildren(...out);
    const link = had && this.states.querySelector('a');
    if (link) link.focus();
  }

  source() {
    return this.page.sources.get(this.d && this.d.source);
  }

  number(d) {
    const n = d.number;
    const text = number(n.value, true);
    const was = this.shown;
    this.shown = text;
    const long = text.length > 40 ? ' longest' : text.length > 16 ? ' long' : '';
    const value = h('p', { class: 'big' + long + (was !== undefined && was !== text ? ' fresh' : '') }, h('span', { class: 'digits' }, n.value === null ? figure(null) : grouped(text)), d.unit && n.value !== null ? [' ', h('span', { class: 'unit' }, d.unit)] : null);
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

  // toggle offers the other look of a chart.
  toggle(text, label) {
    if (!this.other) {
      this.other = h('button', { type: 'button', class: 'plain small toggle', onclick: () => {
        this.asTable = !this.asTable;
        this.replace();
        this.show(this.d);
      } });
      this.badges.append(this.other);
    }
    this.other.textContent = text;
    this.other.setAttribute('aria-label', label + ': ' + this.heading.textContent);
  }

  seriesTable(d) {
    this.keep(WindowsTable, () => new WindowsTable(() => this.heading.textContent)).set(d);
    this.toggle('Chart', 'Show the windows as a chart');
  }

  // keep returns what shows a table in this tile, made where there is none of its kind.
  keep(kind, make) {
    if (!(this.shows instanceof kind)) {
      const made = make();
      this.replace(...made.els);
      this.shows = made;
    }
    return this.shows;
  }

  bars(d) {
    const values = d.bars.map((b) => toNumber(b.value) || 0);
    const hi = Math.max(...values.map(Math.abs), 0) || 1;
    const list = h('ul', { class: 'bars' }, d.bars.map((b, i) => {
      const fill = h('i', { class: 'fill ' + (STATES[b.state] || STATES.p).icon + (values[i] < 0 ? ' minus' : '') });
      fill.style.width = (Math.abs(values[i]) / hi) * 100 + '%';
      return h('li', {}, h('span', { class: 'name', title: b.name.slice(0, 4000) }, named(b.name)), h('span', { class: 'track', 'aria-hidden': 'true' }, b.value === null ? null : fill),
        h('span', { class: 'val' }, h('b', {}, figure(b.value)), d.unit && b.value !== null ? [' ', h('span', { class: 'unit' }, d.unit)] : null),
        state(b.state), b.idle ? h('span', { class: 'state idle' }, icon('idle'), 'idle split') : null);
    }));
    this.replace(list);
  }

  table(d) {
    this.keep(RowsTable, () => new RowsTable(() => this.heading.textContent, (from) => this.turn(from))).set(d.table);
  }

  // turn shows the page of a table that begins at a row. While it is not the first one it is asked for again when the
  // tile or its source has changed.
  async turn(from) {
    this.from = from;
    if (from === 0) {
      this.show(this.first);
      return;
    }
    if (this.asking) {
      this.askAgain = true;
      return;
    }
    this.asking = true;
    let d;
    try {
      d = await this.page.rows(this.spec.id, from);
    } catch (e) {
      d = { ...this.d, error: 'The page of rows cannot be read: ' + e.message, remedy: 'Turn it again.' };
    }
    this.asking = false;
    if (this.from === from) {
      if (d.table && !d.error) this.from = d.table.from; // there may be fewer rows by now
      this.show(d.error && this.d ? { ...this.d, error: d.error, remedy: d.remedy } : d);
    }
    const again = this.askAgain;
    this.askAgain = false;
    if (again && this.from) this.turn(this.from);
  }

  // changed says that the source of the tile has changed.
  changed() {
    if (this.from) this.turn(this.from);
    this.trustful();
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

// grouped is a number that may be broken behind its commas only.
const grouped = (text) => text.split(/(?<=,)/).flatMap((part, i) => (i ? [h('wbr', {}), part] : [part]));

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

// sourcePanel says where the numbers of a source come from, and what is to be done about them. script is the SQL file
// that makes them.
export function sourcePanel(src, script) {
  const gens = src.generations || [];
  const ranges = src.ranges || [];
  const serves = (name) => {
    const out = ranges.filter((r) => r.generation === name).map((r) => (r.from === undefined ? 'the beginning' : time(r.from)) + ' to ' + (r.to === undefined ? 'the end' : time(r.to)));
    if (name === src.default) out.push(ranges.length ? 'all other windows' : 'all windows');
    return out.join('; ') || 'nobody sees it';
  };
  const heads = ['generation', 'shown for windows from', 'has windows', 'keys', 'revisions', 'reconciled'];
  const row = (g) => h('tr', {}, h('th', { scope: 'row' }, g.name), [serves(g.name), g.first < g.last ? time(g.first) + ' \u2013 ' + time(g.last) : g.keys && g.first === g.last ? time(g.first) : '', counted(g.keys), counted(g.revisions), g.reconciled ? 'yes' : 'no']
    .map((x, i) => h('td', { class: i === 2 || i === 3 ? 'num' : '', 'data-label': heads[i + 1] }, x)));
  return h('div', { class: 'source', id: 'source-' + src.name, tabindex: '-1' }, h('h2', {}, src.table, src.memory ? h('span', { class: 'state unsealed' }, icon('unsealed'), 'unsealed, from memory') : null,
    h('span', { class: 'dim' }, src.memory ? '' : src.held && src.held.topic ? 'a topic: its newest generation is shown' : 'pointer version ' + src.pointer)), src.needed ? needed(src.needed, script) : null,
  gens.length ? h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Generations of ' + src.table }, h('table', { role: 'table' }, ...roles([h('thead', {}, h('tr', {}, heads.map((x, i) => h('th', { scope: 'col', class: i === 3 || i === 4 ? 'num' : '' }, x)))), h('tbody', {}, gens.map(row))]))) : h('p', { class: 'empty' }, src.error || 'no generation has rows yet'));
}

// needed says which windows need a backfill, and how that is done.
function needed(n, script) {
  const command = (text) => h('code', {}, 'tidemark ' + text);
  return h('div', { class: 'needed' },
    h('p', {}, h('span', { class: 'state backfill' }, icon('backfill'), counted(n.windows) + (n.windows === 1 ? ' window needs a backfill' : ' windows need a backfill')), ' ',
      counted(n.rows) + (n.rows === 1 ? ' row is' : ' rows are') + ' not in the numbers shown: they came after the state of ' + (n.windows === 1 ? 'the window' : 'their windows') + ' was gone, or after the generation shown was made. ',
      n.first.map((w) => span(w.start, w.end) + ' (' + counted(w.rows) + ')').join(', ') + (n.windows > n.first.length ? ', \u2026' : '.')),
    h('p', {}, 'What to do: ', command('backfill ' + script + ' --generation NAME --needed'), ', then ', command('reconcile ' + script + ' NAME'), ' and ', command('promote ' + script + ' NAME'), '.'));
}
