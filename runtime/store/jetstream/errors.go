package jetstream

import (
	"errors"
	"strings"

	"github.com/nats-io/nats.go"
)

// Errors that an operator can act on. Use [errors.Is] to test for them.
var (
	// ErrConfig indicates an invalid option.
	ErrConfig = errors.New("jetstream: bad configuration")
	// ErrUnreachable indicates that no server responds, that JetStream is not enabled for the account, or that a stream
	// has no leader.
	ErrUnreachable = errors.New("jetstream: no answer")
	// ErrRights indicates that the user lacks the permission named in the message.
	ErrRights = errors.New("jetstream: the user lacks a right")
	// ErrServer indicates that the server is too old or has unsupported settings.
	ErrServer = errors.New("jetstream: unsupported server or settings")
	// ErrReplicas indicates that a stream has the wrong number of replicas.
	ErrReplicas = errors.New("jetstream: wrong number of replicas")
	// ErrForeign indicates that a stream with the expected name belongs to another program or was modified by one.
	ErrForeign = errors.New("jetstream: stream is another program's, or was changed")
	// ErrVersion indicates that the stream was created by a newer release or by a build from before the first release.
	ErrVersion = errors.New("jetstream: the version of the stream is not supported")
	// ErrKey indicates that the key is missing, is wrong, or has an invalid length.
	ErrKey = errors.New("jetstream: encryption key does not fit")
	// ErrCorrupt indicates that data in a stream is damaged.
	ErrCorrupt = errors.New("jetstream: damaged data")
)

// deniedSubject returns the subject of a denied publish or, if subscribe is set, of a denied subscription.
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
