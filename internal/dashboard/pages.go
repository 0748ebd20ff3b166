package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// maxPages is how many pages of tables are remembered for others who look at them.
const maxPages = 128

// pageKey is a page of a table tile behind the first one, which is the tile's own.
type pageKey struct {
	view view
	tile string
	from int // the row that it begins at
}

// keptPage is a page as it was read last.
type keptPage struct {
	lookedAt
	edition int64 // of the board
	text    json.RawMessage
}

// servePage serves a page of the rows of a table tile. Pages are asked for by who turns them, and again when the tile
// or its source have changed.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	v, err := viewOf(r)
	from, numErr := strconv.Atoi(r.URL.Query().Get("from"))
	if err == nil && (numErr != nil || from < 0 || from >= maxPoints) {
		err = fmt.Errorf("from cannot be %q; it is a row from 0 to %d", r.URL.Query().Get("from"), maxPoints-1)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.fresh(r, v)
	text, err := s.page(r.Context(), pageKey{v, r.PathValue("id"), from})
	if err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	answer(w, http.StatusOK, text)
}

// page reads a page where nobody has since its source has changed. An error says that there is no such table; one of
// the target is in the answer.
func (s *Server) page(ctx context.Context, key pageKey) (json.RawMessage, error) {
	s.polling.Lock()
	defer s.polling.Unlock()
	s.mu.Lock()
	i := slices.IndexFunc(s.board.Tiles, func(t Tile) bool { return t.ID == key.tile })
	if i < 0 || s.board.Tiles[i].Kind != Table {
		s.mu.Unlock()
		return nil, fmt.Errorf("there is no table %s", key.tile)
	}
	t, edition := s.board.Tiles[i], s.edition
	src, err := s.find(&t)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	b := s.books[src.key()]
	if b == nil {
		return nil, errors.New("the table was not looked at yet; ask again")
	}
	now := s.now()
	m, known := b.mark()
	if was, ok := s.pages[key]; ok && known && was.mark == m && was.edition == edition && now.Sub(was.at) < rest {
		return was.text, nil
	}
	fit, err := t.resolve(src)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d := fit.blank(b, key.view == viewClosed)
	if err = b.trouble(now); err == nil {
		err = fit.table(ctx, d, key.from)
	}
	if err != nil {
		d.Table = nil
		d.fail(unreadable(src, err))
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	if delete(s.pages, key); d.Error == "" {
		if len(s.pages) >= maxPages {
			clear(s.pages)
		}
		s.pages[key] = keptPage{lookedAt{now, m}, edition, text}
	}
	return text, nil
}

// fail says why there is nothing new.
func (d *Data) fail(err error) { d.Error, d.Remedy = err.Error(), remedyOf(err) }
