package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// request is the body of every change: the edition of the board that it is meant for, and what is new.
type request struct {
	Edition int64  `json:"edition"`
	Tile    *Tile  `json:"tile,omitempty"`
	Title   string `json:"title,omitempty"`
	To      int    `json:"to,omitempty"` // place of a tile that is moved, from 0
}

// done answers a change.
type done struct {
	Edition int64 `json:"edition"`
	Saved   bool  `json:"saved"`
}

func (s *Server) addTile(r *http.Request, body []byte) (any, error) {
	return s.edit(body, func(q *request, b *Board) error {
		if q.Tile == nil {
			return errors.New("there is no tile")
		}
		if len(b.Tiles) == maxTiles {
			return fmt.Errorf("a board has at most %d tiles", maxTiles)
		}
		b.Tiles = append(b.Tiles, *q.Tile)
		return s.fits(q.Tile)
	})
}

func (s *Server) putTile(r *http.Request, body []byte) (any, error) {
	return s.edit(body, func(q *request, b *Board) error {
		i, err := b.at(r.PathValue("id"))
		if err != nil {
			return err
		}
		if q.Tile == nil {
			return errors.New("there is no tile")
		}
		q.Tile.node = b.Tiles[i].node
		b.Tiles[i] = *q.Tile
		return s.fits(q.Tile)
	})
}

func (s *Server) removeTile(r *http.Request, body []byte) (any, error) {
	return s.edit(body, func(_ *request, b *Board) error {
		i, err := b.at(r.PathValue("id"))
		if err == nil {
			b.Tiles = slices.Delete(b.Tiles, i, i+1)
		}
		return err
	})
}

func (s *Server) moveTile(r *http.Request, body []byte) (any, error) {
	return s.edit(body, func(q *request, b *Board) error {
		i, err := b.at(r.PathValue("id"))
		if err != nil {
			return err
		}
		if q.To < 0 || q.To >= len(b.Tiles) {
			return fmt.Errorf("there is no place %d; there are 0 to %d", q.To, len(b.Tiles)-1)
		}
		t := b.Tiles[i]
		b.Tiles = slices.Insert(slices.Delete(b.Tiles, i, i+1), q.To, t)
		return nil
	})
}

func (s *Server) putBoard(_ *http.Request, body []byte) (any, error) {
	return s.edit(body, func(q *request, b *Board) error {
		title := strings.TrimSpace(q.Title)
		if title == "" || len(title) > maxText {
			return fmt.Errorf("the title has from 1 to %d bytes", maxText)
		}
		b.Title = title
		return nil
	})
}

// at finds a tile.
func (b *Board) at(id string) (int, error) {
	i := slices.IndexFunc(b.Tiles, func(t Tile) bool { return t.ID == id })
	if i < 0 {
		return 0, fmt.Errorf("there is no tile %s", id)
	}
	return i, nil
}

// fits reports whether a tile fits its table. mu is held.
func (s *Server) fits(t *Tile) error {
	if err := t.check(); err != nil {
		return err
	}
	src, err := s.find(t)
	if err != nil {
		return err
	}
	_, err = t.resolve(src)
	return err
}

// edit changes the board and saves it.
func (s *Server) edit(body []byte, f func(q *request, b *Board) error) (any, error) {
	var q request
	if err := strictly(body, &q); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken != "":
		return nil, fmt.Errorf("the file of the board cannot be read; mend it first: %s", s.broken)
	case q.Edition != s.edition:
		return nil, errConflict
	case s.o.Config != "" && markOf(s.o.Config) != s.file:
		return nil, errConflict // the next look at the file takes it
	}
	// Work on the text: the board that others read stays whole, and what was saved is what is shown.
	b, err := ParseBoard("board", s.text)
	if err != nil {
		return nil, err
	}
	if err := f(&q, b); err != nil {
		return nil, err
	}
	text, err := b.YAML()
	if err != nil {
		return nil, err
	}
	if b, err = ParseBoard("board", text); err != nil {
		return nil, err
	}
	if s.o.Config != "" {
		if err := save(s.o.Config, text); err != nil {
			return nil, fmt.Errorf("the board cannot be saved: %w", err)
		}
		s.file = markOf(s.o.Config)
	}
	s.given = false
	s.set(b, text)
	s.tell(event{name: "board", data: s.describe()}, nil)
	return done{s.edition, s.o.Config != ""}, nil
}

// save puts text in the place of a file, whole or not at all.
func save(path string, text []byte) error {
	mode := os.FileMode(0o644)
	if i, err := os.Stat(path); err == nil {
		mode = i.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone once it was renamed
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// preview reads a tile that is not on the board.
func (s *Server) preview(r *http.Request, body []byte) (any, error) {
	var q request
	if err := strictly(body, &q); err != nil {
		return nil, err
	}
	if q.Tile == nil {
		return nil, errors.New("there is no tile")
	}
	s.mu.Lock()
	src, err := s.find(q.Tile)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	fit, err := q.Tile.resolve(src)
	if err != nil {
		return nil, err
	}
	s.polling.Lock()
	defer s.polling.Unlock()
	b := s.books[src.key()]
	if b == nil {
		b = newBooks(src)
		s.books[src.key()] = b
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if b.slowAt.IsZero() || q.Tile.Generation != "" {
		var wanted []string
		if q.Tile.Generation != "" {
			wanted = []string{q.Tile.Generation}
		}
		if err := b.update(ctx, wanted, s.now()); err != nil {
			return nil, err
		}
	}
	fit.ID = "preview"
	return fit.load(ctx, b, false)
}
