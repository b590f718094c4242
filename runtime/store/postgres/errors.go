package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sealed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// The natures of failures that an operator acts upon.
var (
	// ErrConfig says that the connection string or an option is wrong.
	ErrConfig = errors.New("postgres: bad configuration")
	// ErrUnreachable says that no connection could be made, for lack of a server, a route or a login.
	ErrUnreachable = errors.New("postgres: cannot connect")
	// ErrRights says that the role lacks a right, which it names.
	ErrRights = errors.New("postgres: the role lacks a right")
	// ErrVersion says that this build must not use the schema: a newer release changed it, or a build before the first
	// release made it.
	ErrVersion = errors.New("postgres: the version of the schema is not supported")
	// ErrServer says that the server is too old or its database unfit.
	ErrServer = errors.New("postgres: unsupported server version or encoding")
	// ErrReadOnly says that the server takes no writes: it is a standby, or read-only by a setting.
	ErrReadOnly = errors.New("postgres: server is read-only")
	// ErrForeign says that the schema belongs to another program.
	ErrForeign = errors.New("postgres: schema belongs to another program")
	// ErrKey says that the key is missing, wrong, or of a bad length.
	ErrKey = errors.New("postgres: wrong or missing encryption key")
	// ErrCorrupt says that something in the database is not what was written.
	ErrCorrupt = errors.New("postgres: damaged data")
)

// classify adds the nature of a failure to the driver's error.
func classify(err error) error {
	var pg *pgconn.PgError
	var parse *pgconn.ParseConfigError
	var dial *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sealed.ErrKey):
		return fmt.Errorf("%w: %w", ErrKey, err)
	case errors.Is(err, sealed.ErrForm):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.As(err, &parse):
		return fmt.Errorf("%w: %w", ErrConfig, err)
	case errors.As(err, &pg):
		switch pg.Code {
		case stateGeneration:
			return fmt.Errorf("%w: %w", engine.ErrNewEpoch, err)
		case stateFenced:
			return fmt.Errorf("%w: %w", engine.ErrFenced, err)
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w", ErrRights, err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
		if errors.As(err, &dial) {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return err
	case errors.As(err, &dial):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// again tells that a transaction met another one and may be tried again.
func again(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// unsent tells that the statement has not reached the server.
func unsent(err error) bool {
	var dial *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &dial)
}

// lost tells that a statement was sent and its answer never came, so that a commit may stand.
func lost(err error) bool {
	if err == nil || unsent(err) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// The server ended the session: 57P01 to 57P03 and class 08 come at any moment.
		return strings.HasPrefix(pg.Code, "57P0") || strings.HasPrefix(pg.Code, "08")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		pgconn.Timeout(err) || errors.Is(err, pgconn.ErrConnClosed)
}

// uncertain marks an error after which the write may stand.
func uncertain(err error) error {
	if lost(err) {
		return fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return classify(err)
}

func none(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// gone tells that a log is not there any more.
func gone(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGone
}

// generationOver tells that begin_write refused the generation or the timeline.
func generationOver(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateGeneration
}
