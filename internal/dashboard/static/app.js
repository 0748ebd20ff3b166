// The page: what it shows comes as server-sent events and is never asked for twice.
import { h } from './format.js';
import { Tile, sourcePanel } from './tiles.js';
import { Editor } from './edit.js';

const $ = (id) => document.getElementById(id);

const page = {
  board: null, // as the server describes it
  tiles: new Map(),
  data: new Map(),
  sources: new Map(),
  view: new URLSearchParams(location.search).get('view') === 'closed' ? 'closed' : '',
  editing: false,
  shift: 0, // of the server's clock against this one, ms
  now: () => Date.now() + page.shift,
  // rows asks for a page of a table that is not the first one.
  rows: async (id, from) => {
    const r = await fetch('api/tiles/' + id + '/rows?from=' + from + (page.view ? '&view=' + page.view : ''));
    const out = await r.json().catch(() => ({ error: r.statusText || 'the server is away' }));
    if (!r.ok) throw new Error(out.error);
    return out;
  },
};

let events = null;

function connect() {
  if (events) events.close();
  page.data.clear();
  for (const id of ['view-all', 'view-closed']) $(id).setAttribute('aria-pressed', String((id === 'view-closed') === (page.view === 'closed')));
  document.body.classList.toggle('closed', page.view === 'closed');
  link('wait', 'connecting');
  events = new EventSource('api/events' + (page.view ? '?view=' + page.view : ''));
  events.addEventListener('open', () => link('live', 'live'));
  events.addEventListener('error', (e) => {
    link('lost', 'reconnecting');
    // After an answer that is none, such as a proxy's, the browser gives up by itself.
    if (e.target === events && events.readyState === EventSource.CLOSED) setTimeout(() => e.target === events && connect(), 3000);
  });
  events.addEventListener('board', (e) => onBoard(JSON.parse(e.data)));
  events.addEventListener('snapshot', (e) => onSnapshot(JSON.parse(e.data)));
  events.addEventListener('tile', (e) => onTile(JSON.parse(e.data)));
  events.addEventListener('source', (e) => onSource(JSON.parse(e.data)));
}

function link(state, text) {
  $('link').dataset.state = state;
  $('link').textContent = text;
}

function onBoard(b) {
  if (page.board && b.page !== page.board.page && !editor.isOpen()) {
    location.reload(); // the program was updated
    return;
  }
  page.shift = b.now - Date.now();
  const same = page.board && JSON.stringify(page.board.board.tiles) === JSON.stringify(b.board.tiles);
  page.board = b;
  const title = b.board.title || 'Results';
  document.title = title;
  if (!$('title').isContentEditable || document.activeElement !== $('title')) $('title').textContent = title;
  $('edit').hidden = !b.editable;
  $('about').textContent = 'Looked at every ' + b.refreshMs / 1000 + ' s.' + (b.version ? ' Tidemark ' + b.version + '.' : '');
  if (!same) build();
  notice();
}

function notice() {
  const b = page.board;
  let text = '';
  if (b.broken) text = 'The file of the board cannot be read, so the page shows it as it was: ' + b.broken;
  else if (page.view === 'closed') text = 'Closed report: only windows that are final in a generation that was reconciled.';
  else if (page.editing && !b.saved) text = 'Changes are kept in memory and are gone when the program ends; start it with --config FILE.yaml to save them.';
  else if (page.editing) text = 'Changes are saved to ' + b.saved + '.';
  $('notice').hidden = !text;
  $('notice').textContent = text;
  $('notice').classList.toggle('bad', !!b.broken);
}

// build makes the tiles anew, as when the board was changed.
function build() {
  const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.focus : null;
  for (const t of page.tiles.values()) t.destroy();
  page.tiles.clear();
  const grid = $('grid');
  const els = [];
  page.board.board.tiles.forEach((spec, i) => {
    const t = new Tile(spec, page);
    page.tiles.set(spec.id, t);
    els.push(t.el);
    tools(t, i);
  });
  if (page.editing) els.push(h('button', { type: 'button', class: 'add', 'data-focus': 'add', onclick: () => editor.open(null) }, h('span', { 'aria-hidden': 'true' }, '+'), 'Add a tile'));
  else if (!els.length) els.push(h('p', { class: 'empty' }, 'The board has no tiles. ', page.board.editable ? 'Press Edit to add some.' : ''));
  grid.replaceChildren(...els);
  for (const [id, t] of page.tiles) if (page.data.has(id)) t.set(page.data.get(id));
  if (focus) {
    const e = grid.querySelector('[data-focus="' + CSS.escape(focus) + '"]');
    if (e) e.focus();
  }
}

// tools are the buttons of a tile while the page is edited.
function tools(t, i) {
  t.tools.replaceChildren();
  if (!page.editing) return;
  const n = page.board.board.tiles.length;
  const name = t.spec.title || t.spec.value || t.spec.table || t.spec.kind;
  const button = (text, label, act, off) => h('button', { type: 'button', class: 'plain small', 'aria-label': label + ': ' + name, title: label, disabled: off, 'data-focus': label + t.spec.id, onclick: act }, text);
  let sure = false;
  const remove = button('Remove', 'Remove', (e) => {
    if (!sure) {
      sure = true;
      e.target.textContent = 'Really remove?';
      e.target.classList.add('danger');
      return;
    }
    change('DELETE', 'api/tiles/' + t.spec.id, {});
  });
  t.tools.append(button('\u2190', 'Move back', () => change('POST', 'api/tiles/' + t.spec.id + '/move', { to: i - 1 }), i === 0),
    button('\u2192', 'Move on', () => change('POST', 'api/tiles/' + t.spec.id + '/move', { to: i + 1 }), i === n - 1),
    button('Edit', 'Change', () => editor.open(t.spec)), remove);
}

// change asks the server to change the board; the new board comes as an event.
export async function change(method, path, body) {
  const r = await fetch(path, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ edition: page.board.edition, ...body }) });
  const out = await r.json().catch(() => ({ error: r.statusText }));
  if (r.ok) {
    if (out.edition) page.board.edition = Math.max(page.board.edition, out.edition);
    return out;
  }
  if (body.tile) throw new Error(out.error);
  $('notice').hidden = false;
  $('notice').textContent = out.error;
  return null;
}

function onSnapshot(s) {
  page.shift = s.now - Date.now();
  page.sources = new Map(Object.entries(s.sources || {}));
  page.data = new Map(Object.entries(s.tiles || {}));
  for (const [id, d] of page.data) if (page.tiles.has(id)) page.tiles.get(id).set(d);
  panels();
}

function onTile(d) {
  page.data.set(d.id, d);
  if (page.tiles.has(d.id)) page.tiles.get(d.id).set(d);
}

function onSource(s) {
  page.sources.set(s.name, s);
  for (const t of page.tiles.values()) if (t.d && t.d.source === s.name) t.changed();
  panels();
}

let panelText = '';
function panels() {
  const list = [...page.sources.values()];
  // Ages and counts are on the tiles; the panels change with generations only.
  const text = JSON.stringify(list.map((s) => [s.table, s.memory, s.pointer, s.default, s.ranges, s.generations, s.error, s.needed]));
  if (text === panelText) return;
  panelText = text;
  const had = $('sources').contains(document.activeElement) ? document.activeElement.closest('.source').id : '';
  $('sources').replaceChildren(...list.map((x) => sourcePanel(x, page.board.script)));
  const again = had && $(had);
  if (again) (again.querySelector('.scroll') || again).focus();
}

function setView(v) {
  if (page.view === v) return;
  page.view = v;
  const url = new URL(location.href);
  if (v) url.searchParams.set('view', v);
  else url.searchParams.delete('view');
  history.replaceState(null, '', url);
  connect();
  if (page.board) {
    build();
    notice();
  }
}

function setEditing(on) {
  page.editing = on;
  $('edit').setAttribute('aria-pressed', String(on));
  $('edit').textContent = on ? 'Done' : 'Edit';
  document.body.classList.toggle('editing', on);
  const title = $('title');
  if (on) {
    title.setAttribute('contenteditable', 'plaintext-only');
    title.setAttribute('role', 'textbox');
    title.setAttribute('aria-label', 'Title of the board');
  } else {
    for (const a of ['contenteditable', 'role', 'aria-label']) title.removeAttribute(a);
  }
  build();
  notice();
}

const editor = new Editor(page, change);
$('view-all').addEventListener('click', () => setView(''));
$('view-closed').addEventListener('click', () => setView('closed'));
$('edit').addEventListener('click', () => setEditing(!page.editing));
$('title').addEventListener('keydown', (e) => {
  if (e.key === 'Enter') {
    e.preventDefault();
    e.target.blur();
  }
});
$('title').addEventListener('blur', (e) => {
  const title = e.target.textContent.trim();
  if (page.editing && title && title !== page.board.board.title) change('PUT', 'api/board', { title });
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const t of page.tiles.values()) if (t.chart) t.chart.recolor();
});
setInterval(() => {
  if (!document.hidden) for (const t of page.tiles.values()) t.trustful();
}, 1000);
connect();
