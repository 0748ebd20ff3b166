// Package dashboard serves a page of tiles over tables of results: numbers, series, bars and tables, each
// with what tells how far it can be trusted. A cell says provisional, final or needs backfill; a tile says
// its generation, watermark, completeness, age, and the rows that were late, rejected, duplicate or in
// conflict.
//
// Rows come through a Reader: the target of a table (results.Store), or the running job's memory (Live).
// A Server looks at them at an interval, once for all who watch, and sends what has changed as server-sent
// events. The package starts no goroutine: whoever serves Server.Handler also calls Server.Run.
//
// Locks: Server.polling is held over a whole poll and guards the books and the pages of tables; Server.mu guards the board, what
// was seen last and the list of viewers, and is held for short moments only. polling is taken first.
package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options is what a Server shows and whom it serves.
type Options struct {
	Sources []Source
	// Board is shown where Config names no file; nil: DefaultBoard.
	Board *Board
	// Script is the SQL file that writes the tables, as commands that the page names are told it; "": that of the board.
	Script string
	// Config is the YAML file of the board; changes made in the page are saved there. "": they are kept
	// in memory. A file that is not there yet is made by the first change.
	Config string
	// Local says that only this machine reaches the server: requests must then name it as their host.
	Local bool
	// Hosts are names that the page may be changed under besides this machine's and IP addresses.
	Hosts []string
	// ReadOnly refuses changes of the board.
	ReadOnly bool
	// Version is that of the program.
	Version string
	// Now is the clock; nil: the wall clock.
	Now func() time.Time
}

// rest is how long tiles are left alone while the progress of their source says that nothing came.
const rest = 30 * time.Second

// Server serves the page. Its methods may be called from several goroutines.
type Server struct {
	o   Options
	now func() time.Time

	polling sync.Mutex
	books   map[string]*books // by key of the source
	marks   map[view]map[string]lookedAt
	pages   map[pageKey]keptPage

	mu      sync.Mutex
	sources []Source
	board   *Board
	text    []byte // of the board, as it was parsed
	edition int64  // rises with each board
	given   bool   // the board is DefaultBoard, and nobody has changed it
	broken  string // why the file of the board cannot be read
	file    fileMark
	seen    map[view]*picture
	viewers map[*viewer]bool
}

// view is what a page shows: "" everything, "closed" the closed report.
type view string

const (
	viewAll    view = ""
	viewClosed view = "closed"
)

// picture is what a view showed at the last poll.
type picture struct {
	at      time.Time
	edition int64
	tiles   map[string]json.RawMessage
	last    map[string]*Data // the last that was read without an error
	sources map[string]json.RawMessage
}

// lookedAt is when a tile was read last, and where its source stood.
type lookedAt struct {
	at   time.Time
	mark mark
}

type fileMark struct {
	size int64
	at   time.Time
}

// New returns a server for o, and an error where its board cannot be read.
func New(o Options) (*Server, error) {
	s := &Server{o: o, now: o.Now, books: map[string]*books{}, marks: map[view]map[string]lookedAt{}, pages: map[pageKey]keptPage{}, sources: o.Sources,
		seen: map[view]*picture{}, viewers: map[*viewer]bool{}}
	if s.now == nil {
		s.now = time.Now
	}
	board := o.Board
	if o.Config != "" {
		text, err := os.ReadFile(o.Config)
		switch {
		case err == nil:
			if board, err = ParseBoard(filepath.Base(o.Config), text); err != nil {
				return nil, err
			}
			s.file = markOf(o.Config)
			s.set(board, text)
			return s, nil
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	if board == nil {
		board, s.given = DefaultBoard(o.Sources), true
	}
	text, err := board.YAML()
	if err != nil {
		return nil, err
	}
	s.set(board, text)
	return s, nil
}

// Warnings lists the tiles of the board that cannot be shown, with where they stand in its file and why. Their tiles
// say so too.
func (s *Server) Warnings() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.board.Tiles {
		t := &s.board.Tiles[i]
		src, err := s.find(t)
		if err == nil {
			_, err = t.resolve(src)
		}
		if err == nil {
			continue
		}
		place := "tile " + strconv.Itoa(i+1)
		if t.node != nil {
			place = fmt.Sprintf("%s:%d", filepath.Base(s.o.Config), t.node.Line)
		}
		out = append(out, place+": "+err.Error())
	}
	return out
}

// AddSource adds a table to the page: that of a job that has just been started. A source that was there
// under the same name is replaced.
func (s *Server) AddSource(src Source) {
	s.polling.Lock()
	defer s.polling.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.sources, func(x Source) bool { return x.key() == src.key() }); i >= 0 {
		s.sources[i] = src
	} else {
		s.sources = append(slices.Clone(s.sources), src)
	}
	delete(s.books, src.key())
	if s.given { // the page is that of the tables
		b := DefaultBoard(s.sources)
		if text, err := b.YAML(); err == nil {
			s.board, s.text = b, text
		}
	}
	s.edition++
	s.tell(event{name: "board", data: s.describe()}, nil)
}

// set makes b the board. mu is held or nobody else knows s.
func (s *Server) set(b *Board, text []byte) {
	s.board, s.text = b, text
	s.edition++
}

func markOf(path string) fileMark {
	i, err := os.Stat(path)
	if err != nil {
		return fileMark{}
	}
	return fileMark{i.Size(), i.ModTime()}
}

// Run looks at the tables at the board's interval, while somebody watches, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	for {
		s.mu.Lock()
		every, _ := refreshOf(s.board.Refresh)
		s.mu.Unlock()
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			s.hangUp()
			return
		case <-t.C:
		}
		s.reload()
		for _, v := range s.watched() {
			s.poll(ctx, v)
		}
	}
}

// watched lists the views that somebody looks at.
func (s *Server) watched() []view {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []view
	for w := range s.viewers {
		if !slices.Contains(out, w.view) {
			out = append(out, w.view)
		}
	}
	return out
}

// reload takes a file of the board that somebody has changed.
func (s *Server) reload() {
	if s.o.Config == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := markOf(s.o.Config)
	if m == s.file || m == (fileMark{}) {
		return
	}
	s.file = m
	text, err := os.ReadFile(s.o.Config)
	if err == nil && string(text) == string(s.text) {
		return
	}
	b, perr := ParseBoard(filepath.Base(s.o.Config), text)
	if err = errors.Join(err, perr); err != nil {
		s.broken = err.Error()
	} else {
		s.broken, s.given = "", false
		s.set(b, text)
	}
	s.tell(event{name: "board", data: s.describe()}, nil)
}

// find returns the source that a tile names. mu is held.
func (s *Server) find(t *Tile) (*Source, error) {
	var fits []*Source
	names := map[string]bool{}
	var list []string
	for i := range s.sources {
		x := &s.sources[i]
		if !names[x.Table.Name] {
			names[x.Table.Name] = true
			list = append(list, x.Table.Name)
		}
		if t.Table != "" && x.Table.Name != t.Table || t.From == fromTarget && x.Memory || t.From == fromMemory && !x.Memory {
			continue
		}
		fits = append(fits, x)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("there is no table of results yet")
	case t.Table == "" && len(list) > 1:
		return nil, fmt.Errorf("say which table the tile is of: %v", list)
	case t.Table != "" && !names[t.Table]:
		return nil, fmt.Errorf("there is no table of results called %s; there are %v", t.Table, list)
	case len(fits) == 0 && t.From == fromMemory:
		return nil, errors.New("nothing is in memory here: the job runs in another process; show what is sealed with from: target")
	case len(fits) == 0:
		return nil, errors.New("what is sealed of this table cannot be read; show what the running job has made with from: memory")
	}
	// What is sealed comes first.
	slices.SortStableFunc(fits, func(a, b *Source) int {
		switch {
		case a.Memory == b.Memory:
			return 0
		case a.Memory:
			return 1
		}
		return -1
	})
	return fits[0], nil
}

// poll looks at everything that a view shows, and tells the viewers what has changed.
func (s *Server) poll(ctx context.Context, v view) {
	s.polling.Lock()
	defer s.polling.Unlock()
	s.mu.Lock()
	tiles, edition := slices.Clone(s.board.Tiles), s.edition
	found := make([]*Source, len(tiles))
	errs := make([]error, len(tiles))
	for i := range tiles {
		found[i], errs[i] = s.find(&tiles[i])
	}
	pic := s.seen[v]
	if pic == nil || pic.edition != edition {
		pic = &picture{edition: edition, tiles: map[string]json.RawMessage{}, last: map[string]*Data{}, sources: map[string]json.RawMessage{}}
		s.seen[v] = pic
		s.marks[v] = map[string]lookedAt{}
	}
	s.mu.Unlock()

	failed := s.pollSources(ctx, v, pic, tiles, found)
	for i := range tiles {
		t := &tiles[i]
		var d *Data
		err := errs[i]
		if err == nil {
			if err = failed[found[i].key()]; err == nil {
				d, err = s.pollTile(ctx, v, t, found[i])
			}
			if errors.Is(err, context.DeadlineExceeded) {
				failed[found[i].key()] = err // others are not kept waiting for the same
			}
			if d == nil && err == nil {
				continue // nothing new
			}
		}
		if err != nil {
			d = &Data{ID: t.ID}
			if was := pic.last[t.ID]; was != nil {
				old := *was
				d = &old
			}
			if found[i] != nil {
				d.Source = found[i].key()
			}
			d.fail(err)
			delete(s.marks[v], t.ID) // when that is over the tile is shown anew, also where nothing came meanwhile
		} else {
			pic.last[t.ID] = d
		}
		s.show(v, "tile", t.ID, pic.tiles, d)
	}
	s.mu.Lock()
	pic.at = s.now()
	s.mu.Unlock()
}

// show keeps what is new of a tile or a source, and tells the viewers.
func (s *Server) show(v view, what, name string, in map[string]json.RawMessage, x any) {
	text, err := json.Marshal(x)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(in[name]) == string(text) {
		return
	}
	in[name] = text
	s.tell(event{name: what, data: text}, &v)
}

// pollSources brings the books of the sources up to date. It returns those that could not be read.
func (s *Server) pollSources(ctx context.Context, v view, pic *picture, tiles []Tile, found []*Source) map[string]error {
	failed := map[string]error{}
	done := map[string]bool{}
	for _, src := range found {
		if src == nil || done[src.key()] {
			continue
		}
		key := src.key()
		done[key] = true
		var wanted []string
		for k := range tiles {
			if found[k] != nil && found[k].key() == key && tiles[k].Generation != "" {
				wanted = append(wanted, tiles[k].Generation)
			}
		}
		b := s.books[key]
		if b == nil {
			b = newBooks(src)
			s.books[key] = b
		}
		err := b.trouble(s.now())
		if err == nil {
			c, cancel := context.WithTimeout(ctx, storeTimeout)
			begun := s.now()
			err = b.update(c, wanted, begun)
			cancel()
			b.note(err, s.now(), begun)
		}
		if err != nil {
			failed[key] = unreadable(src, err)
		}
		s.show(v, "source", key, pic.sources, b.status(failed[key], wanted))
	}
	return failed
}

// pollTile reads a tile anew where its source may have changed. Without an error and data it has not.
func (s *Server) pollTile(ctx context.Context, v view, t *Tile, src *Source) (*Data, error) {
	fit, err := t.resolve(src)
	if err != nil {
		return nil, err
	}
	b := s.books[src.key()]
	now := s.now()
	m, ok := b.mark()
	if was := s.marks[v][t.ID]; ok && was.mark == m && now.Sub(was.at) < rest {
		return nil, nil
	}
	c, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d, err := fit.load(c, b, v == viewClosed)
	if err == nil {
		s.marks[v][t.ID] = lookedAt{now, m}
		return d, nil
	}
	delete(s.marks[v], t.ID)
	if kindOf(err) != (kind{}) {
		err = unreadable(src, err)
	}
	return nil, err
}
