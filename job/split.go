package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tidemark-stream/tidemark/checkpoint"
	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/expr"
	"github.com/tidemark-stream/tidemark/format"
	"github.com/tidemark-stream/tidemark/types"
	"github.com/tidemark-stream/tidemark/vec"
)

// errNullTime is why a row without event time cannot be used.
var errNullTime = errors.New("the event time is NULL")

// splitRun is a split being read by one subtask: its reader, its decoder, and one decoded batch of
// which the rows before cursor have gone through the operators.
type splitRun struct {
	s     *sourceRun
	split connector.Split
	order int // among the splits of the source, for ties
	cs    *clockSplit

	rd      connector.SplitReader
	chunks  connector.ChunkReader // rd, or nil
	batches connector.BatchReader // rd, or nil
	dec     format.Decoder
	keyDec  format.Decoder
	rec     connector.Records
	reading bool // rec holds records not decoded yet
	raw     *vec.Batch
	rows    format.Rows
	keys    keyRows
	consts  []*vec.Vec // values of constCols
	skipped int64      // bad records that the decoder has passed over
	progs   *expr.Programs
	ctx     expr.EvalCtx

	out     vec.Batch // projected and stamped
	sel     []int32
	stamps  []int64
	wms     []int64   // watermark after each row of out
	cursor  int       // in positions of out
	wm      int64     // running maximum, decoded so far
	shown   int64     // what went to the clock
	sinceN  int       // rows since wm was last shown, for on-event.gap
	shownAt time.Time // of on-periodic
	hold    int64     // order key before the first row
	quiet   time.Time // since when it has no data; zero: it has, as far as is known
	asked   int64     // the step in which it was last asked for data
	ended   bool
	limit   *checkpoint.Split // where Options.Until has it; nil: it is read to its end
	through bool              // it has been read up to its limit
	sized   bool              // size is known, or known not to be
	size    int64             // of a split that is not open: what is left in it, -1 if unknown
}

// open starts or restarts reading.
func (r *splitRun) open(ctx context.Context) error {
	rd, err := r.s.reader.Open(ctx, r.split)
	if err != nil {
		return fmt.Errorf("open %s of table %s: %w", r.split.ID, r.s.table.Name, err)
	}
	r.rd = rd
	r.s.begin(r.split.ID, rd.Position())
	r.chunks, _ = rd.(connector.ChunkReader)
	r.batches, _ = rd.(connector.BatchReader)
	if r.chunks == nil && r.batches == nil {
		return fmt.Errorf("BUG: connector %s opens splits that read neither chunks nor batches", r.s.table.Connector)
	}
	if r.raw == nil {
		r.raw = vec.NewBatch(r.s.rawSchema)
	}
	if r.chunks != nil && r.dec == nil {
		if r.dec, r.keyDec, err = r.s.newDecoders(); err != nil {
			return err
		}
		r.rows.Batch = &vec.Batch{Cols: r.raw.Cols[:0:0]}
		for _, c := range r.s.valueCols {
			r.rows.Batch.Cols = append(r.rows.Batch.Cols, r.raw.Cols[c])
		}
		r.keys.open(r.raw, r.s.keyCols)
	}
	if r.progs == nil {
		if r.progs, err = expr.CompileAll(r.s.exprs, r.s.env); err != nil {
			return err
		}
	}
	if c, ok := r.dec.(format.Cutter); ok {
		if f, ok := rd.(interface{ CutBy(func([]byte) int) }); ok {
			f.CutBy(c.Complete)
		}
	}
	r.ctx.Env = r.s.env
	return r.openConstants()
}

// openConstants reads the values of partition columns from the split.
func (r *splitRun) openConstants() error {
	r.consts = r.consts[:0]
	if len(r.s.constCols) == 0 {
		return nil
	}
	given := map[string]string{}
	if c, ok := r.rd.(connector.Constants); ok {
		given = c.Constants()
	}
	for _, at := range r.s.constCols {
		f := r.s.rawSchema.Fields[at]
		v := vec.New(f.Type.AsNullable(), 1)
		text, ok := given[f.Name]
		if !ok {
			v.SetNull(0)
			r.consts = append(r.consts, v)
			continue
		}
		e, err := expr.Cast(&expr.Literal{Value: text, T: types.StringType.NotNull()}, f.Type, false, r.s.env, expr.Pos{})
		if err != nil {
			return err
		}
		lit, ok := expr.Fold(e, r.s.env).(*expr.Literal)
		if !ok {
			return fmt.Errorf("partition %s=%s of %s: the value is not a %s", f.Name, text, r.split.ID, f.Type)
		}
		v.SetValue(0, lit.Value)
		r.consts = append(r.consts, v)
	}
	return nil
}

// repeat makes col n copies of the only value of v.
func repeat(col, v *vec.Vec, n int) {
	if v.Phys == types.PBytes && !v.IsNull(0) {
		col.Resize(n)
		b := col.BeginBytes()
		col.EndBytes(0, append(b, v.Bytes(0)...))
		for i := 1; i < n; i++ {
			col.Refs[i] = col.Refs[0]
		}
		return
	}
	col.Resize(n)
	for i := range n {
		col.Set(i, v, 0)
	}
}

// key is what splits are read in the order of: the watermark before the next row.
func (r *splitRun) key() int64 {
	if r.cursor < r.out.N && r.cursor > 0 {
		return r.wms[r.cursor-1]
	}
	if r.cursor == 0 && r.out.N > 0 {
		return max(r.stamps[0], r.hold)
	}
	return max(r.wm, r.hold)
}

// before reports whether r's next row comes before one with the given key and split.
func (r *splitRun) before(key int64, order int) bool {
	k := r.key()
	return k < key || k == key && r.order < order
}

// pending reports whether decoded rows wait to be pushed.
func (r *splitRun) pending() bool { return r.cursor < r.out.N }

// fill decodes the next batch of at most maxRows rows into r.out. It returns false when there is
// nothing at present; r.ended says that there never will be.
func (r *splitRun) fill(ctx context.Context, maxRows int) (bool, error) {
	for {
		r.out.N, r.cursor = 0, 0
		if r.through {
			return r.atLimit()
		}
		r.raw.Reset(0)
		if r.batches != nil {
			if err := r.batches.ReadBatch(ctx, r.raw, maxRows); err != nil {
				return r.none(err)
			}
		} else if ok, err := r.decode(ctx, maxRows); !ok || err != nil {
			return ok, err
		}
		r.quiet = time.Time{}
		if err := r.keepToLimit(); err != nil {
			return false, err
		}
		if r.raw.N == 0 {
			continue
		}
		if err := r.project(); err != nil {
			return false, err
		}
		if r.out.N > 0 {
			return true, nil
		}
	}
}

func (r *splitRun) none(err error) (bool, error) {
	if r.limit != nil && (err == io.EOF || err == connector.ErrNoData) {
		return r.noneBeforeLimit(err)
	}
	switch {
	case err == io.EOF:
		r.ended = true
		return false, nil
	case err == connector.ErrNoData:
		if r.quiet.IsZero() {
			r.quiet = time.Now()
		}
		return false, nil
	}
	return false, fmt.Errorf("read %s of table %s: %w", r.split.ID, r.s.table.Name, err)
}

func (r *splitRun) decode(ctx context.Context, maxRows int) (bool, error) {
	if !r.reading {
		if err := r.chunks.Read(ctx, &r.rec); err != nil {
			return r.none(err)
		}
		r.reading = true
		r.s.bytesIn.Add(int64(len(r.rec.Chunk.Data)))
	}
	r.rows.Rec = r.rows.Rec[:0]
	for _, c := range r.raw.Cols {
		c.Reset(0)
	}
	vb := r.rows.Batch
	*vb = vec.Batch{Cols: vb.Cols, Pos: vb.Pos[:0]}
	if err := r.dec.Decode(&r.rec.Chunk, &r.rows, maxRows); err != nil {
		return false, err
	}
	if r.rec.Chunk.Done() {
		r.reading = false
	}
	if c, ok := r.dec.(format.Counter); ok {
		n, _ := c.Counts()
		r.s.skipped.Add(n - r.skipped)
		r.skipped = n
	}
	if err := r.gatherKeys(); err != nil {
		return false, err
	}
	for k, m := range r.rec.Metadata {
		col := r.raw.Cols[r.s.metaAt+k]
		if r.rec.Chunk.Bounds == nil && m.Len() == 1 {
			repeat(col, m, vb.N)
			continue
		}
		col.Gather(m, r.rows.Rec)
	}
	for k, c := range r.consts {
		repeat(r.raw.Cols[r.s.constCols[k]], c, vb.N)
	}
	cols := r.raw.Cols
	*r.raw = *vb
	r.raw.Cols = cols
	return true, nil
}

// project computes the output columns, watermarks and stamps of the decoded rows.
func (r *splitRun) project() error {
	s := r.s
	s.current = r
	n := r.raw.N
	bad := map[int]bool{}
	for _, row := range r.keys.bad { // its record was counted when it was refused
		bad[row] = true
	}
	s.counters.RowsIn.Add(int64(n - len(bad)))
	r.ctx.Batch, r.ctx.Errs = r.raw, r.ctx.Errs[:0]
	cols := r.progs.EvalAll(&r.ctx, r.raw)
	r.out = vec.Batch{N: n, Cols: append(r.out.Cols[:0], cols...), Kinds: r.raw.Kinds,
		Origin: r.raw.Origin, Pos: r.raw.Pos}
	if err := s.refuse(r.raw, r.ctx.Errs, bad); err != nil {
		return err
	}
	if s.src.RowTime >= 0 {
		if err := r.stamp(bad); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		if r.sel == nil {
			r.sel = make([]int32, 0, n) // a nil selection would select all
		}
		r.sel = r.sel[:0]
		for i := 0; i < n; i++ {
			if !bad[i] {
				r.sel = append(r.sel, int32(i))
			}
		}
		r.out.Sel = r.sel
	}
	return nil
}

// stamp computes for each row the watermark of this split before (stamps) and after (wms) it.
func (r *splitRun) stamp(bad map[int]bool) error {
	s, n := r.s, r.out.N
	times := r.out.Cols[s.src.RowTime]
	if times.Valid != nil {
		for i := 0; i < n; i++ {
			if times.IsNull(i) && !bad[i] {
				bad[i] = true
				if err := s.badRow(r.raw, i, expr.Pos{}, errNullTime); err != nil {
					return err
				}
			}
		}
	}
	if s.maxFuture > 0 {
		if err := r.refuseFuture(times, bad); err != nil {
			return err
		}
	}
	r.stamps, r.wms = growTo(r.stamps, n), growTo(r.wms, n)
	wm := r.wm
	if s.watermark == nil { // the source orders its rows itself: no watermark of rows
		for i := range n {
			r.stamps[i], r.wms[i] = wm, wm
		}
	} else {
		r.ctx.Batch, r.ctx.Errs = &r.out, r.ctx.Errs[:0]
		v := s.watermark.Eval(&r.ctx, &r.out)
		if err := s.refuse(r.raw, r.ctx.Errs, bad); err != nil {
			return err
		}
		switch {
		case s.periodic > 0:
			wm = r.stampPeriodic(v, bad)
		case v.Valid == nil && len(bad) == 0 && s.gap <= 1 && v.Phys == types.PI64:
			for i, x := range v.I64[:n] {
				r.stamps[i] = wm
				wm = max(wm, x)
				r.wms[i] = wm
			}
			r.shown = wm
		default:
			wm = r.stampSlow(v, bad)
		}
	}
	r.wm = wm
	r.out.Stamps = r.stamps[:n]
	return nil
}

func (r *splitRun) stampSlow(v *vec.Vec, bad map[int]bool) int64 {
	shown, top := r.shown, r.wm
	for i := 0; i < r.out.N; i++ {
		r.stamps[i] = shown
		if !bad[i] && !v.IsNull(i) {
			top = max(top, v.I64[i])
		}
		if r.sinceN++; r.sinceN >= r.s.gap {
			shown, r.sinceN = top, 0
		}
		r.wms[i] = shown
	}
	r.shown = shown
	return top
}

// stampPeriodic is for scan.watermark.emit.strategy = on-periodic: the watermark is shown at
// intervals of the wall clock, between two batches. Which rows are late then depends on timing.
func (r *splitRun) stampPeriodic(v *vec.Vec, bad map[int]bool) int64 {
	r.showPeriodic()
	top := r.wm
	for i := range r.out.N {
		r.stamps[i], r.wms[i] = r.shown, r.shown
		if !bad[i] && !v.IsNull(i) {
			top = max(top, v.I64[i])
		}
	}
	return top
}

// showPeriodic shows the watermark reached so far if its time has come, and reports whether it
// has moved.
func (r *splitRun) showPeriodic() bool {
	now := time.Now()
	if r.shown == r.wm || now.Sub(r.shownAt) < r.s.periodic {
		return false
	}
	r.shown, r.shownAt = r.wm, now
	return true
}

// record returns the bytes that decoded row i came from, nil where they are not at hand.
func (r *splitRun) record(i int) []byte {
	c := &r.rec.Chunk
	switch {
	case r.chunks == nil || i >= len(r.raw.Pos):
		return nil
	case c.Bounds == nil:
		at := r.raw.Pos[i] - c.Base
		if at < 0 || at >= int64(len(c.Data)) {
			return nil
		}
		rec := c.Data[at:]
		if end := bytes.IndexByte(rec, '\n'); end >= 0 {
			rec = rec[:end]
		}
		return bytes.TrimSuffix(rec, []byte{'\r'})
	}
	k, ok := slices.BinarySearch(c.Positions, r.raw.Pos[i])
	if !ok || c.Bounds[k] == format.NullRecord {
		return nil
	}
	b := c.Bounds[k]
	return c.Data[b.Off : b.Off+b.Len]
}

// refuseFuture marks rows whose time lies too far beyond the time the system gave the record.
func (r *splitRun) refuseFuture(times *vec.Vec, bad map[int]bool) error {
	now := r.s.now()
	for i := 0; i < r.out.N; i++ {
		if bad[i] || times.IsNull(i) {
			continue
		}
		at := now
		if r.rec.TimeMs != nil && i < len(r.rows.Rec) {
			at = r.rec.TimeMs[r.rows.Rec[i]]
		}
		if times.I64[i] <= at+r.s.maxFuture {
			continue
		}
		bad[i] = true
		err := fmt.Errorf("the event time lies more than %s ahead of the record's time (scan.watermark.max-future)",
			time.Duration(r.s.maxFuture)*time.Millisecond)
		if err := r.s.badRow(r.raw, i, expr.Pos{}, err); err != nil {
			return err
		}
	}
	return nil
}

// park closes a split that has just been opened and decoded, keeping a copy of its pending rows,
// so that thousands of splits can wait for their turn.
func (r *splitRun) park() error {
	if r.pending() {
		kept := vec.NewBatch(r.s.node.Schema)
		rows := make([]int32, 0, r.out.N)
		for i := range r.out.N {
			rows = append(rows, int32(i))
		}
		sel := r.out.Sel
		kept.Gather(&r.out, rows)
		r.out = *kept
		r.out.Sel = sel
		r.stamps = r.out.Stamps
	}
	r.split.Position = r.resume()
	r.raw, r.progs, r.dec, r.keyDec, r.rec, r.skipped = nil, nil, nil, nil, connector.Records{}, 0
	return r.close()
}

// resume is the position behind every decoded row.
func (r *splitRun) resume() connector.Position {
	switch c := &r.rec.Chunk; {
	case r.rd == nil:
		return r.split.Position
	case r.reading && c.Bounds == nil:
		return connector.Position{Offset: c.Base + int64(c.Next), Set: true}
	case r.reading && c.Next < len(c.Positions):
		return connector.Position{Offset: c.Positions[c.Next], Set: true}
	}
	return r.rd.Position()
}

// position is where to go on so that no pushed row is read again and none is missed.
func (r *splitRun) position() connector.Position {
	if r.pending() && r.out.Pos != nil {
		return connector.Position{Offset: r.out.Pos[r.cursor], Set: true}
	}
	return r.resume()
}

func (r *splitRun) close() error {
	if r.rd == nil {
		return nil
	}
	err := r.rd.Close()
	r.rd, r.chunks, r.batches, r.reading = nil, nil, nil, false
	return err
}

func growTo[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n, 2*n)
}
