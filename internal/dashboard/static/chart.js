// Lines over windows, drawn by uPlot. What a line says of its cells is drawn by shape: provisional windows are
// dashed with open circles, those that need a backfill have triangles, windows that closed while a split
// was idle are shaded and have a mark at the foot.
import { h, state, icon, figure, named, short, toNumber, span, day, clock } from './format.js';

const HEIGHT = 210; // at least
const DAY = 86400000;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const lineColor = (i) => style('--c' + ((i % 8) + 1));

// Chart keeps a plot in its place while data comes.
export class Chart {
  constructor() {
    this.plotBox = h('div', { class: 'plot', tabindex: '0', role: 'group' });
    this.when = h('span', { class: 'when' });
    this.values = h('ul', { class: 'values' });
    this.readout = h('div', { class: 'readout', 'aria-live': 'off' }, this.when, this.values);
    this.el = h('div', { class: 'chart' }, this.plotBox, this.readout);
    this.at = null; // the window under the cursor, null: the newest
    this.plotBox.addEventListener('keydown', (e) => this.key(e));
    this.plotBox.addEventListener('focus', () => this.readout.setAttribute('aria-live', 'polite'));
    this.plotBox.addEventListener('blur', () => {
      this.readout.setAttribute('aria-live', 'off');
      this.move(null);
    });
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.plotBox);
  }

  destroy() {
    this.sizes.disconnect();
    if (this.plot) this.plot.destroy();
    this.plot = null;
  }

  // set shows the data of a series.
  set(d) {
    this.d = d.series;
    this.unit = d.unit;
    this.plotBox.setAttribute('aria-label', 'Line chart of ' + d.label + ' over ' + this.d.start.length +
      ' windows. Left and right arrow keys read it window by window.');
    // With more windows than pixels dashes are no dashes any more: what is provisional is drawn lighter then.
    this.packed = this.d.start.length > (this.plotBox.clientWidth || 600);
    const names = JSON.stringify([this.packed, this.d.lines.map((l) => l.name)]);
    const data = this.data();
    if (this.plot && this.names === names) {
      this.plot.setData(data);
    } else {
      if (this.plot) this.plot.destroy();
      this.names = names;
      this.plot = this.plotBox.clientWidth ? new uPlot(this.options(), data, this.plotBox) : null;
    }
    if (this.at !== null && this.at >= this.d.start.length) this.at = null;
    this.read();
  }

  // data is a solid and a dashed series a line: the dashed one begins at the last solid point. Where windows
  // are missing, a point without values breaks the lines: nothing is drawn that is not there.
  data() {
    const { start, end, lines } = this.d;
    this.place = []; // the window of each point, that before it where there is none
    const xs = [];
    start.forEach((t, i) => {
      xs.push(t);
      this.place.push(i);
      if (this.gap(i)) {
        xs.push(end[i]);
        this.place.push(i);
      }
    });
    const real = (k) => k === 0 || this.place[k] !== this.place[k - 1];
    const spread = (v) => xs.map((_, k) => (real(k) ? v[this.place[k]] : null));
    const out = [xs];
    for (const l of lines) {
      const v = l.values.map(toNumber);
      const p = (i) => l.states[i] === 'p';
      out.push(spread(v.map((x, i) => (p(i) ? null : x))));
      out.push(spread(v.map((x, i) => (p(i) || p(i + 1) || p(i - 1) ? x : null))));
    }
    return out;
  }

  // gap reports whether windows are missing behind window i. Of tables that do not tell where windows end (those are of
  // 1 ms here) nobody knows.
  gap(i) {
    const { start, end } = this.d;
    return i + 1 < start.length && start[i + 1] > end[i] && end[i] - start[i] > 1;
  }

  options() {
    const text = style('--muted');
    const grid = { stroke: style('--grid'), width: 1 };
    const font = '11px ' + style('--font');
    const lines = this.d.lines.length;
    const series = [{}];
    this.d.lines.forEach((l, i) => {
      const stroke = lineColor(i);
      const common = { stroke, width: 1.75, spanGaps: false, points: { show: false } };
      series.push(common, this.packed ? { ...common, width: 1, alpha: 0.5 } : { ...common, dash: [4, 4] });
    });
    const label = lines > 1 && lines <= 5 && this.plotBox.clientWidth > 420;
    const longest = label ? Math.max(...this.d.lines.map((l) => l.name.length)) : 0;
    return {
      width: this.plotBox.clientWidth,
      height: this.tall(),
      ms: 1,
      tzDate: (ts) => uPlot.tzDate(new Date(ts), 'Etc/UTC'),
      padding: [10, label ? Math.min(110, 16 + longest * 7.4) : 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: true, range: (u, lo, hi) => this.times(lo, hi) }, y: { range: (u, lo, hi) => this.range(lo, hi) } },
      axes: [
        { stroke: text, font, grid: { show: false }, ticks: { ...grid, size: 4 }, size: 34, gap: 4, space: 60, values: (u, at, a, s, incr) => axisTimes(at, incr) },
        { stroke: text, font, grid, ticks: { show: false }, size: (u, v) => 14 + 6.4 * Math.max(2, ...(v || []).map((x) => x.length)), gap: 6, values: (u, at) => at.map(short) },
      ],
      series,
      hooks: {
        drawClear: [(u) => this.drawIdle(u)],
        draw: [(u) => this.drawMarks(u, label)],
        setCursor: [(u) => {
          if (this.moving) return;
          this.at = u.cursor.left >= 0 && u.cursor.idx !== null ? this.place[u.cursor.idx] : null;
          this.read();
        }],
      },
    };
  }

  // times has a single window in its middle.
  times(lo, hi) {
    if (lo === null || hi === null || hi > lo) return [lo, hi];
    const size = this.d.end[0] - this.d.start[0];
    const room = size > 1 ? size : 3600000; // where it ends is not known of a window of 1 ms
    return [lo - room, hi + room];
  }

  // range begins at zero, unless all values are far from it.
  range(lo, hi) {
    if (lo === null || hi === null) return [0, 1];
    if (lo >= 0 && lo < hi * 0.8) lo = 0;
    const room = (hi - lo || Math.abs(hi) || 1) * 0.08;
    return [lo === 0 ? 0 : lo - room, hi + room];
  }

  drawIdle(u) {
    const c = u.ctx;
    const { left, top, width, height } = u.bbox;
    const px = devicePixelRatio;
    c.save();
    c.beginPath();
    c.rect(left, top, width, height);
    c.clip();
    c.fillStyle = style('--shade');
    for (let i = 0; i < this.d.start.length; i++) {
      if (this.d.idle[i] !== '1') continue;
      const next = this.d.start[i + 1] ?? this.d.end[i];
      const a = u.valToPos(this.d.start[i], 'x', true);
      const b = Math.max(u.valToPos(Math.min(this.d.end[i], next), 'x', true), a + 3 * px);
      c.fillRect(a, top, b - a, height);
      c.save();
      c.fillStyle = style('--warn');
      c.fillRect(a, top + height - 7 * px, 2 * px, 7 * px);
      c.fillRect(a + 4 * px, top + height - 7 * px, 2 * px, 7 * px);
      c.restore();
    }
    c.restore();
  }

  drawMarks(u, label) {
    const c = u.ctx;
    const px = devicePixelRatio;
    const dense = this.d.start.length > u.bbox.width / px / 9;
    c.save();
    c.setLineDash([]); // that of the line drawn last
    c.lineWidth = 1.5 * px;
    const ends = [];
    this.d.lines.forEach((l, i) => {
      const color = lineColor(i);
      let last = null;
      l.values.forEach((v, k) => {
        const n = toNumber(v);
        if (n === null) return;
        const x = u.valToPos(this.d.start[k], 'x', true);
        const y = u.valToPos(n, 'y', true);
        last = y;
        const s = l.states[k];
        const alone = (j) => toNumber(l.values[j]) === null || this.gap(Math.min(j, k));
        if (s !== 'b' && dense && (s === 'f' || this.packed) && !(alone(k - 1) && alone(k + 1))) return;
        c.beginPath();
        if (s === 'b') {
          const r = 5 * px;
          c.moveTo(x, y - r);
          c.lineTo(x + r, y + r * 0.75);
          c.lineTo(x - r, y + r * 0.75);
          c.closePath();
          c.fillStyle = style('--backfill');
          c.fill();
          return;
        }
        c.arc(x, y, (s === 'p' ? 3 : 2) * px, 0, 2 * Math.PI);
        c.fillStyle = s === 'p' ? style('--tile') : color;
        c.strokeStyle = color;
        c.fill();
        if (s === 'p') c.stroke();
      });
      if (last !== null) ends.push({ name: l.name.length > 14 ? l.name.slice(0, 12) + '\u2026' : l.name, y: last, color });
    });
    if (label) {
      ends.sort((a, b) => a.y - b.y);
      c.font = 11 * px + 'px ' + style('--font');
      c.textBaseline = 'middle';
      c.textAlign = 'left';
      let below = -Infinity;
      for (const e of ends) {
        const y = Math.max(e.y, below);
        below = y + 13 * px;
        c.fillStyle = e.color;
        c.fillText(e.name, u.bbox.left + u.bbox.width + 8 * px, y);
      }
    }
    c.restore();
  }

  key(e) {
    const n = this.d ? this.d.start.length : 0;
    const at = this.at === null ? n - 1 : this.at;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[e.key];
    if (e.key === 'Escape') this.move(null);
    if (to === undefined || n === 0) return;
    e.preventDefault();
    this.move(Math.min(n - 1, Math.max(0, to)));
  }

  // move puts the cursor on a window.
  move(i) {
    this.at = i;
    if (this.plot) {
      this.moving = true;
      this.plot.setCursor(i === null ? { left: -10, top: -10 } : { left: this.plot.valToPos(this.d.start[i], 'x'), top: 20 });
      this.moving = false;
    }
    this.read();
  }

  // read writes the values of a window below the plot.
  read() {
    const n = this.d.start.length;
    const i = this.at === null ? n - 1 : this.at;
    if (i < 0) return;
    this.when.replaceChildren(span(this.d.start[i], this.d.end[i]), h('span', { class: 'dim' }, ' \u00b7 ' + this.d.gen[i]),
      this.d.idle[i] === '1' ? h('span', { class: 'state idle' }, icon('idle'), 'closed while a split was idle') : '');
    this.values.replaceChildren(...this.d.lines.map((l, k) => {
      const there = l.states[i] !== ' ';
      const swatch = h('i', { class: 'swatch' });
      swatch.style.background = lineColor(k);
      return h('li', {}, swatch, l.name ? h('span', { class: 'name', title: l.name.slice(0, 4000) }, named(l.name)) : null,
        h('b', {}, there ? figure(l.values[i]) : 'no row'), there && this.unit && l.values[i] !== null ? [' ', h('span', { class: 'unit' }, this.unit)] : null,
        there ? state(l.states[i]) : null, there && l.revisions[i] > 1 ? h('span', { class: 'dim' }, 'rev\u00a0' + l.revisions[i]) : null);
    }));
  }

  resize() {
    if (!this.d || !this.plotBox.clientWidth) return;
    if (!this.plot) {
      this.plot = new uPlot(this.options(), this.data(), this.plotBox);
    } else if (this.plot.width !== this.plotBox.clientWidth || this.plot.height !== this.tall()) {
      this.plot.setSize({ width: this.plotBox.clientWidth, height: this.tall() });
    }
  }

  // tall is the height of the plot: what the tile has.
  tall() {
    return Math.max(HEIGHT, this.plotBox.clientHeight);
  }

  // recolor makes the plot anew, as when the machine turns dark.
  recolor() {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = new uPlot(this.options(), this.data(), this.plotBox);
    this.read();
  }
}

// axisTimes are the texts of a time axis: the day stands below the first hour of each day.
function axisTimes(at, incr) {
  let last = null;
  return at.map((t) => {
    if (incr >= DAY) return day(t);
    const d = Math.floor(t / DAY);
    const text = clock(t) + (d !== last ? '\n' + day(t) : '');
    last = d;
    return text;
  });
}
