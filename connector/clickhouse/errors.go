package clickhouse

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-stream/tidemark/connector"
)

// serverError is what a server says, under the number that it gives its kind of error.
type serverError struct {
	code int
	msg  string
}

func (e *serverError) Error() string {
	if e.code == 0 {
		return e.msg
	}
	return fmt.Sprintf("%s (code %d)", e.msg, e.code)
}

// inView reports whether a materialized view failed: then the rows are in the table nevertheless, and
// parts of the block under other tokens would come in again.
func (e *serverError) inView() bool {
	return strings.Contains(e.msg, "while pushing to view") && classes[e.code] != away
}

// onShard reports whether a shard of a Distributed table failed: others may have taken their rows.
func (e *serverError) onShard() bool { return strings.Contains(e.msg, "Insertion status:") }

// class says what an error means for what was being done.
type class uint8

const (
	broken   class = iota // trying again is of no use here, but may be after a restart
	away                  // the server cannot be reached, or has no room: wait for it
	passing               // not known to last: try again, some times
	hopeless              // no restart can heal it
	refused               // the data are refused for what they are
	wide                  // the block touches more partitions than one insert may: smaller ones may do
)

// classes are the server's numbers that say something. Others are passing.
var classes = func() map[int]class {
	out := map[int]class{}
	for c, codes := range map[class][]int{
		// texts, numbers, dates, enums and addresses that cannot be read; values out of range; constraints
		refused: {6, 25, 26, 27, 38, 41, 69, 72, 117, 128, 130, 131, 153, 190, 248, 321, 349, 376, 395, 407, 441, 467, 469, 490, 632, 645, 675, 676, 691},
		// no such table, database, column, user, right, setting, function; the schema does not fit
		hopeless: {7, 8, 9, 10, 16, 20, 34, 35, 36, 42, 43, 44, 46, 47, 48, 50, 53, 60, 62, 70, 73, 80, 81, 115, 119, 122, 164, 171, 181, 192, 193, 194, 195,
			291, 344, 359, 386, 392, 446, 452, 457, 471, 472, 491, 492, 497, 516, 620, 701, 720, 721, 728},
		// network, timeouts, no memory, too many parts, no Keeper, too few replicas, overloaded
		away: {3, 32, 33, 74, 75, 76, 95, 96, 99, 101, 159, 160, 173, 198, 201, 202, 203, 204, 209, 210, 216, 225, 236, 241, 242, 243, 252, 254, 265, 279, 285, 286, 289, 297, 319, 335, 364,
			394, 410, 425, 499, 500, 519, 574, 667, 677, 733, 734, 735, 745, 999, 1000, 1001},
	} {
		for _, n := range codes {
			out[n] = c
		}
	}
	return out
}()

// classOf sorts errors.
func classOf(err error) class {
	var fatal *connector.Fatal
	var unread *connector.UnreadError
	var se *serverError
	switch {
	case errors.As(err, &fatal), errors.Is(err, errSegment):
		return hopeless
	case errors.As(err, &se):
		return classOfServer(se)
	case errors.As(err, &unread), errors.Is(err, errBlock), errors.Is(err, context.Canceled):
		return broken
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) {
		return hopeless
	}
	return away // no answer of the server: the connection
}

func classOfServer(e *serverError) class {
	if e.inView() {
		return hopeless
	}
	if e.code == 252 && strings.Contains(e.msg, "single INSERT block") {
		return wide
	}
	if c, ok := classes[e.code]; ok {
		return c
	}
	return passing
}

// patience decides how often, and after which wait, something is tried again.
type patience struct{ connector.Patience }

// again waits and returns nil when what failed with err may be tried again, else the error to give up
// with.
func (p *patience) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	switch classOf(err) {
	case away:
		if gone, over := p.Away(); over {
			return fmt.Errorf("the server cannot be used since %s: %w", gone, err)
		}
	case passing:
		if p.Passing() {
			return err
		}
	case hopeless:
		return connector.AsFatal(err)
	default:
		return err
	}
	if !p.Pause(ctx) {
		return err
	}
	return nil
}
