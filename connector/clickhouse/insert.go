package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/tidemark-stream/tidemark/connector"
	"github.com/tidemark-stream/tidemark/format"
)

// inserter inserts blocks. It belongs to one goroutine.
type inserter struct {
	s *sink
	session
	once bool // an insert that may have happened is not tried again
}

// errLost says that an insert may have happened or not, and is not tried again.
var errLost = errors.New("the answer of the server was lost")

// block inserts b under a token. What fails is tried again, under the same token and with the same
// bytes; what is refused for what it contains is halved, down to the rows refused, which are dead
// letters. The tokens of the halves follow from the path to them: after a crash the same halves come
// under the same tokens. o says what the rows came from; those of b begin with its row from.
func (in *inserter) block(ctx context.Context, b []byte, token string, o origins, from int) error {
	err := in.insist(ctx, b, token)
	c := classOf(err)
	if err == nil || c != refused && c != wide {
		return err
	}
	blk, e := parseBlock(b)
	if e != nil {
		return e
	}
	if se := (*serverError)(nil); errors.As(err, &se) && se.onShard() && blk.rows > 1 && in.s.guarantee() == connector.ExactlyOnce && in.s.cfg.Table.Results == nil {
		return connector.Fatalf("%w; a shard refuses rows of a block of which others have taken theirs, and in smaller blocks those would come in again: "+
			"have the Distributed table refuse them (make it anew, with the same CONSTRAINT), or use 'at-least-once'", err)
	}
	if blk.rows <= 1 {
		if c == wide {
			return connector.AsFatal(err)
		}
		return in.refuse(blk, err, o, from)
	}
	mid := blk.rows / 2
	for k, ends := range [2][2]int{{0, mid}, {mid, blk.rows}} {
		half, err := blk.appendRows(nil, ends[0], ends[1])
		if err != nil {
			return err
		}
		if err := in.block(ctx, half, fmt.Sprintf("%s/%d", token, k), o, from+ends[0]); err != nil {
			return err
		}
	}
	return nil
}

// refuse hands a row to the dead-letter output.
func (in *inserter) refuse(blk *block, err error, o origins, at int) error {
	var se *serverError
	if errors.As(err, &se) {
		err = se
	}
	origin, pos := o.Of(at)
	if err := in.s.cfg.Bad(format.BadRecord{Bytes: blk.rowText(0), Origin: origin, Pos: pos, Err: fmt.Errorf("%w: %w", connector.ErrRefused, err)}); err != nil {
		return connector.AsFatal(err)
	}
	return nil
}

// insist inserts b until the server says yes, or no for good.
func (in *inserter) insist(ctx context.Context, b []byte, token string) error {
	p := in.s.patience()
	for {
		err := in.try(ctx, b, token)
		if err == nil {
			return nil
		}
		var se *serverError
		switch c := classOf(err); {
		case errors.As(err, &se) && se.inView():
			return connector.Fatalf("%w; the rows are in the table and not in that view: write it so that it takes all rows (toUInt8OrNull instead of toUInt8), or drop it", err)
		case c == refused || c == wide:
			return err
		case in.once && c == away && ctx.Err() == nil && mayHave(err):
			return fmt.Errorf("%w: %w", errLost, err)
		}
		if err := p.again(ctx, err); err != nil {
			return err
		}
	}
}

// mayHave reports whether an insert that failed with err, of the class away, may have happened.
func mayHave(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	var se *serverError
	return !errors.As(err, &se) || slices.Contains([]int{159, 209, 210, 319}, se.code) // timeouts, the network, an unknown status
}

func (in *inserter) try(ctx context.Context, b []byte, token string) error {
	t, err := in.s.described(ctx)
	if err != nil {
		return err
	}
	blk, err := parseBlock(b)
	if err != nil {
		return err
	}
	settings := append(in.c.inserting(t.settings), setting{"insert_deduplication_token", token})
	in.stay = !t.memory.shared && in.s.guarantee() == connector.ExactlyOnce
	return in.session.insert(ctx, t.insertInto(blk), settings, b)
}

// prefix is what tokens of a sink begin with.
func (s *sink) prefix() string { return "tidemark/" + s.cfg.Job + "/" + s.cfg.Node + "/" }
