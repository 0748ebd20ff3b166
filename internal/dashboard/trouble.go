package dashboard

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"syscall"
)

// trouble says why a table cannot be read, and what helps.
type trouble struct {
	table, cause, remedy string
	err                  error
}

// Error implements error.
func (t *trouble) Error() string {
	if t.cause == "" {
		return fmt.Sprintf("table %s cannot be read: %v", t.table, t.err)
	}
	return fmt.Sprintf("table %s cannot be read: %s (%v)", t.table, t.cause, t.err)
}

// Unwrap returns what the target said.
func (t *trouble) Unwrap() error { return t.err }

// remedyOf is what helps against an error, "" where that is in its text or nobody knows.
func remedyOf(err error) string {
	var t *trouble
	if errors.As(err, &t) {
		return t.remedy
	}
	return ""
}

// kind is what is known of a kind of trouble.
type kind struct{ cause, remedy string }

const (
	goesOn = "The page tries again by itself and goes on from there."
	atOnce = "The page reads its script when it begins: start it again then."
)

var (
	kindAway = kind{"its server does not answer", "Start the server, or look at the network between. " + goesOn}
	kindName = kind{"the name of its server is not known", "Correct the host in the options of the table, or the name service. " + atOnce}
	kindSlow = kind{"its server has not answered in time", "Look at what else the server does; show less of the past with last, or fewer rows with where. " + goesOn}
	kindFull = kind{"its server takes no more queries at present", goesOn}
	kindUser = kind{"its server refuses the user or the password", "Correct username and password in the options of the table, or give the user its password back. " + atOnce}
	kindMay  = kind{"the user may not read it", "Grant the user SELECT on the table and its companions (_progress, _pointer, _record, _latest, _conflicts). " + goesOn}
	kindGone = kind{"it, or one of its companions, is not in its target", "The job that writes it makes it ('sink.create' = 'true'), and so does what tidemark ddl prints. " + goesOn}
	kindBase = kind{"its database is not there", "Make the database, or correct its name in the options of the table and start the page again. " + goesOn}
	kindElse = kind{"it has other columns than the script says", "The table was changed, or the script is of another version: start the page with the script that the job runs, or change the table back. " + goesOn}
	kindTLS  = kind{"the certificate of its server is not trusted", "Give the certificate of the authority in the options of the table. " + atOnce}
)

// byState are kinds of trouble by SQLSTATE, or its class, as PostgreSQL gives it.
var byState = map[string]kind{"28": kindUser, "42501": kindMay, "42P01": kindGone, "3F": kindGone, "3D": kindBase, "42703": kindElse, "42804": kindElse, "42883": kindElse,
	"53": kindFull, "57P": kindAway, "57014": kindSlow, "08": kindAway, "22P02": kindElse}

// byCode are kinds of trouble by ClickHouse's numbers.
var byCode = map[int]kind{516: kindUser, 192: kindUser, 193: kindUser, 194: kindUser, 497: kindMay, 60: kindGone, 81: kindBase, 47: kindElse, 16: kindElse, 10: kindElse, 8: kindElse,
	43: kindElse, 386: kindElse, 53: kindElse, 159: kindSlow, 160: kindSlow, 209: kindAway, 210: kindAway, 202: kindFull, 241: kindFull}

var codeIn = regexp.MustCompile(`\(code (\d+)\)`)

// unreadable says why the table of src cannot be read.
func unreadable(src *Source, err error) error {
	var t *trouble
	if errors.As(err, &t) {
		return err
	}
	k := kindOf(err)
	return &trouble{table: src.Table.Name, cause: k.cause, remedy: k.remedy, err: err}
}

func kindOf(err error) kind {
	var state interface{ SQLState() string } // of a driver of PostgreSQL
	if errors.As(err, &state) {
		for n := 5; n >= 2; n-- {
			if s := state.SQLState(); len(s) >= n {
				if k, ok := byState[s[:n]]; ok {
					return k
				}
			}
		}
		return kind{}
	}
	if m := codeIn.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1]) // it is digits
		return byCode[n]
	}
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var reset net.Error
	switch {
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return kindTLS
	case errors.As(err, &name) && name.IsNotFound:
		return kindName
	case errors.Is(err, context.DeadlineExceeded):
		return kindSlow
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, net.ErrClosed), errors.As(err, &reset):
		return kindAway
	}
	return kind{}
}
