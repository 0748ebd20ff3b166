// The dialog in which a tile is made or changed, with a preview.
import { h } from './format.js';
import { Tile, defaultWidth } from './tiles.js';

const KINDS = [['number', 'Number', 'one figure and its course'], ['series', 'Time series', 'lines over windows'], ['bars', 'Bars', 'one bar a name'], ['table', 'Table', 'whole rows']];
const AGGREGATES = [['', 'as it is'], ['sum', 'sum'], ['avg', 'average'], ['min', 'least'], ['max', 'greatest'], ['count', 'count']];

export class Editor {
  constructor(page, change) {
    this.page = page;
    this.change = change;
    this.dialog = h('dialog', { class: 'editor', 'aria-labelledby': 'editor-title' });
    document.body.append(this.dialog);
    this.dialog.addEventListener('close', () => {
      if (this.shown) this.shown.destroy();
      this.shown = null;
    });
  }

  // open edits a tile; null: a new one.
  open(spec) {
    this.id = spec ? spec.id : null;
    this.spec = spec ? structuredClone(spec) : { kind: 'series' };
    this.build();
    this.dialog.showModal();
  }

  isOpen() {
    return this.dialog.open;
  }

  source() {
    const list = this.page.board.sources;
    const s = this.spec;
    return list.find((x) => (!s.table || x.table === s.table) && (!s.from || (s.from === 'memory') === !!x.memory)) || list[0];
  }

  build() {
    const s = this.spec;
    const src = this.source();
    const columns = src ? src.columns : [];
    const shown = columns.filter((c) => ['key', 'start', 'end', 'value'].includes(c.role));
    const value = /^(\w+)\((.*)\)$/.exec(s.value || '') || [null, '', s.value || ''];
    const fields = [];
    const field = (label, ...els) => fields.push(h('label', { class: 'field' }, h('span', {}, label), ...els));
    const group = (label, ...els) => fields.push(h('fieldset', { class: 'field' }, h('legend', {}, label), ...els));
    const again = () => {
      this.take();
      this.build();
    };
    const radio = (name, list, at, act) => list.map(([v, text, hint]) => h('label', { class: 'choice' }, h('input', { type: 'radio', name, value: v, checked: String(v) === String(at), onchange: act }), h('span', {}, text, hint ? h('small', {}, hint) : null)));
    const select = (name, list, at, act) => h('select', { name, onchange: act }, list.map(([v, text]) => h('option', { value: v, selected: v === at }, text)));
    const checks = (name, list, on) => list.map((c) => h('label', { class: 'check' }, h('input', { type: 'checkbox', name, value: c.name, checked: on.includes(c.name) }), c.name, c.unit ? [' ', h('span', { class: 'unit' }, c.unit)] : null));

    group('Kind', h('div', { class: 'choices' }, radio('kind', KINDS, s.kind, again)));
    const sources = this.page.board.sources;
    if (sources.length > 1) field('Table', select('source', sources.map((x) => [x.name, x.table + (x.memory ? ' (unsealed, from memory)' : '')]), src && src.name, again));
    if (s.kind !== 'table') {
      const list = columns.filter((c) => c.numeric && c.role !== 'revision' || c.role === 'value');
      fields.push(h('div', { class: 'field pair' }, h('label', {}, h('span', {}, 'Value'), select('fn', AGGREGATES, value[1], null)),
        h('label', {}, h('span', {}, 'of column'), select('column', list.map((c) => [c.name, c.name + (c.unit ? ' (' + c.unit + ')' : '')]), value[2], null))));
      if (s.kind !== 'number') group(s.kind === 'series' ? 'One line for each' : 'One bar for each', h('div', { class: 'checks' }, checks('by', columns.filter((c) => c.role === 'key' || c.role === 'value' && !c.numeric), s.by || [])));
    } else {
      group('Columns', h('div', { class: 'checks' }, checks('columns', shown, s.columns || shown.map((c) => c.name))));
      field('Sorted by', h('input', { name: 'order', value: (s.order || []).join(', '), placeholder: 'newest windows first; a column, or -column to descend' }));
    }
    const where = Object.entries(s.where || {});
    group('Only rows with', h('div', { class: 'wheres' }, [...where, ['', '']].map(([k, v]) => h('div', { class: 'where' },
      h('select', { name: 'wherecol', 'aria-label': 'column' }, h('option', { value: '' }, '\u2013'), shown.map((c) => h('option', { value: c.name, selected: c.name === k }, c.name))),
      h('span', { 'aria-hidden': 'true' }, '='), h('input', { name: 'whereval', 'aria-label': 'value', value: v })))));
    const more = [];
    more.push(h('label', {}, h('span', {}, 'How much of the past'), h('input', { name: 'last', list: 'spans', value: s.last || '', placeholder: { number: 'newest window', series: '48 windows', bars: 'newest window', table: 'all' }[s.kind] })),
      h('datalist', { id: 'spans' }, ['1', '12', '24', '48', '168', '24h', '7d', '30d', 'all'].map((v) => h('option', { value: v }))));
    if (s.kind !== 'number') more.push(h('label', {}, h('span', {}, { series: 'Lines', bars: 'Bars', table: 'Rows' }[s.kind] + ' at most'), h('input', { name: 'limit', type: 'number', min: 1, max: 1000, value: s.limit || '' })));
    fields.push(h('div', { class: 'field pair' }, more));
    const gens = ((this.page.sources.get(src && src.name) || {}).generations || []).map((g) => [g.name, g.name]);
    if (s.generation && !gens.some((g) => g[0] === s.generation)) gens.push([s.generation, s.generation]);
    fields.push(h('div', { class: 'field pair' }, h('label', {}, h('span', {}, 'Generation'), select('generation', [['', 'the one that counts'], ...gens], s.generation || '', null)),
      h('fieldset', {}, h('legend', {}, 'Width'), h('div', { class: 'widths' }, radio('width', [[1, '1'], [2, '2'], [3, '3'], [4, '4']], s.width || defaultWidth(s.kind), null)))));
    field('Title', h('input', { name: 'title', value: s.title || '', maxlength: 200, placeholder: 'made from the value' }));

    this.form = h('form', { method: 'dialog', oninput: () => this.later() }, h('div', { class: 'fields' }, fields));
    this.preview = h('div', { class: 'preview', 'aria-label': 'Preview', role: 'region' });
    this.error = h('p', { class: 'tile-error', role: 'alert', hidden: true });
    const focus = document.activeElement && this.dialog.contains(document.activeElement) ? [document.activeElement.name, document.activeElement.value] : null;
    this.form.addEventListener('submit', (e) => {
      e.preventDefault();
      this.save();
    });
    this.dialog.replaceChildren(h('header', {}, h('h2', { id: 'editor-title' }, this.id ? 'Change the tile' : 'A new tile')), h('div', { class: 'halves' }, this.form, this.preview), this.error,
      h('footer', {}, h('button', { type: 'button', class: 'plain', onclick: () => this.dialog.close() }, 'Cancel'), h('button', { type: 'button', class: 'main', onclick: () => this.save() }, this.id ? 'Save' : 'Add')));
    if (focus) {
      const e = [...this.form.elements].find((x) => x.name === focus[0] && (x.type !== 'radio' || x.value === focus[1]));
      if (e) e.focus();
    }
    this.try();
  }

  // take reads the form into the tile.
  take() {
    const f = new FormData(this.form);
    const text = (name) => (f.get(name) || '').toString().trim();
    const was = this.spec;
    const s = { id: '', kind: text('kind') || was.kind };
    const src = this.page.board.sources.find((x) => x.name === text('source')) || this.source();
    if (src && this.page.board.sources.length > 1) {
      s.table = src.table;
      if (this.page.board.sources.some((x) => x.table === src.table && x !== src) || src.memory) s.from = src.memory ? 'memory' : 'target';
    } else if (was.table) s.table = was.table;
    if (text('column')) s.value = text('fn') ? text('fn') + '(' + text('column') + ')' : text('column');
    else if (was.value) s.value = was.value;
    const by = f.getAll('by');
    if (by.length) s.by = by;
    const columns = f.getAll('columns');
    if (columns.length) s.columns = columns;
    const order = text('order').split(',').map((x) => x.trim()).filter(Boolean);
    if (order.length) s.order = order;
    const vals = f.getAll('whereval');
    f.getAll('wherecol').forEach((k, i) => {
      if (k) (s.where ||= {})[k] = vals[i];
    });
    if (text('last')) s.last = text('last');
    if (text('limit')) s.limit = Number(text('limit'));
    if (text('generation')) s.generation = text('generation');
    // A width that nobody chose is that of the kind.
    const width = Number(text('width'));
    if (width && width !== defaultWidth(s.kind) && (was.width || width !== defaultWidth(was.kind))) s.width = width;
    if (text('title')) s.title = text('title');
    this.spec = s;
  }

  // sent is the tile without what its kind has not.
  sent() {
    const s = { ...this.spec, id: '' };
    const drop = { number: ['by', 'columns', 'order', 'limit'], series: ['columns', 'order'], bars: ['columns', 'order'], table: ['value', 'by'] }[s.kind];
    for (const k of drop) delete s[k];
    return s;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.take();
      this.try();
    }, 300);
  }

  async try() {
    this.take();
    const spec = this.sent();
    const turn = (this.turn = (this.turn || 0) + 1);
    try {
      const d = await this.change('POST', 'api/preview', { tile: spec });
      if (turn !== this.turn || !this.dialog.open) return;
      if (this.shown) this.shown.destroy();
      this.shown = new Tile({ ...spec, id: 'preview' }, this.page);
      this.preview.replaceChildren(this.shown.el);
      this.shown.set(d);
      this.error.hidden = true;
    } catch (e) {
      if (turn === this.turn) this.fail(e.message);
    }
  }

  fail(text) {
    this.error.hidden = false;
    this.error.textContent = text;
  }

  async save() {
    clearTimeout(this.timer);
    this.take();
    try {
      await this.change(this.id ? 'PUT' : 'POST', this.id ? 'api/tiles/' + this.id : 'api/tiles', { tile: this.sent() });
      this.dialog.close();
    } catch (e) {
      this.fail(e.message);
    }
  }
}
