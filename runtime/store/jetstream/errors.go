package jetstream

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// The natures of failures that an operator acts upon.
var (
	// ErrConfig says that an option is wrong.
	ErrConfig = errors.New("jetstream: bad configuration")
	// ErrUnreachable says that no server answers, that JetStream is not enabled for the account, or that a stream
	// has no leader.
	ErrUnreachable = errors.New("jetstream: no answer")
	// ErrRights says that the user lacks a right, which it names.
	ErrRights = errors.New("jetstream: the user lacks a right")
	// ErrServer says that the server is too old.
	ErrServer = errors.New("jetstream: unsupported server or settings")
	// ErrReplicas says that a stream is on another number of servers than it has to be.
	ErrReplicas = errors.New("jetstream: wrong number of replicas")
	// ErrForeign says that a stream of our name is another program's, or was changed by hand.
	ErrForeign = errors.New("jetstream: stream is another program's, or was changed")
	// ErrVersion says that a newer release, or a build before the first one, made the stream.
	ErrVersion = errors.New("jetstream: the version of the stream is not supported")
	// ErrKey says that the key is missing, wrong, or of a bad length.
	ErrKey = errors.New("jetstream: encryption key does not fit")
	// ErrCorrupt says that something in a stream is not what was written.
	ErrCorrupt = errors.New("jetstream: damaged data")
)

// deniedSubject is the subject that a server refused to take a publish on, or with subscribe, to let subscribe to.
func deniedSubject(err error, subscribe bool) (string, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", false
	}
	what := `Publish to "`
	if subscribe {
		what = `Subscription to "`
	}
	_, rest, ok := strings.Cut(err.Error(), what)
	subject, _, _ := strings.Cut(rest, `"`)
	return subject, ok
}
