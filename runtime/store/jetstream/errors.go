package jetstream

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// Errors that an operator can act upon. Errors of this package match them with [errors.Is].
var (
	// ErrConfig reports an invalid option.
	ErrConfig = errors.New("jetstream: bad configuration")
	// ErrUnreachable reports that no server answers, that JetStream is not enabled for the account, or that a stream
	// has no leader.
	ErrUnreachable = errors.New("jetstream: no answer")
	// ErrRights reports that the user lacks a permission, which the message names.
	ErrRights = errors.New("jetstream: the user lacks a right")
	// ErrServer reports that the server is too old or its settings are unsuitable.
	ErrServer = errors.New("jetstream: unsupported server or settings")
	// ErrReplicas reports that a stream has the wrong number of replicas.
	ErrReplicas = errors.New("jetstream: wrong number of replicas")
	// ErrForeign reports that a stream with the expected name belongs to another program or was changed by hand.
	ErrForeign = errors.New("jetstream: stream is another program's, or was changed")
	// ErrVersion reports that a newer release, or a build before the first release, created the stream.
	ErrVersion = errors.New("jetstream: the version of the stream is not supported")
	// ErrKey reports that the key is missing, wrong, or of an invalid length.
	ErrKey = errors.New("jetstream: encryption key does not fit")
	// ErrCorrupt reports that data in a stream are damaged.
	ErrCorrupt = errors.New("jetstream: damaged data")
)

// deniedSubject returns the subject for which a server denied a publish or, if subscribe is set, a subscription.
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
