package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// Prefixes of connection ids.
const (
	streamPrefix = "stream-"
	pollPrefix   = "poll-"
)

func streamID(number uint64) string { return fmt.Sprintf(streamPrefix+"%016d", number) }

// describeConnection describes a connection without the fields that require its log.
func describeConnection(c Connection) operator.Connection {
	i := c.Info()
	if st, ok := c.(Stream); ok {
		i.ID = streamID(st.Number())
	} else {
		i.ID = pollPrefix + i.Subscription
	}
	return i
}

// allConnections returns all streams and pollers of this process.
func (a *Admin) allConnections() []Connection {
	all := a.o.Host.Pollers()
	for _, st := range a.o.Host.Streams() {
		all = append(all, st)
	}
	return all
}

// describeConnections describes the streams and pollers of this process, the oldest first.
func (a *Admin) describeConnections() (all []operator.Connection) {
	for _, c := range a.allConnections() {
		i := describeConnection(c)
		i.Behind = c.Behind()
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b operator.Connection) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all
}

func (a *Admin) Connections(ctx context.Context) (all []operator.Connection, f operator.Freshness) {
	m := a.reports(ctx)
	f = m.freshness()
	for _, p := range m.replicas {
		if p.missing != "" {
			continue
		}
		for _, c := range p.report.Connections {
			if c.Process = p.Name; !p.this {
				c.ID = p.Name + "/" + c.ID
			}
			all = append(all, c)
		}
		if n := p.report.Unlisted; n > 0 {
			f.Missing = append(f.Missing, fmt.Sprintf("%s has %d older connections, which only its own list contains.", p.Name, n))
		}
	}
	slices.SortFunc(all, func(a, b operator.Connection) int { return cmp.Compare(a.ID, b.ID) })
	return all, f
}

// findConnection returns the stream or poller with the id. It does not list all connections.
func (a *Admin) findConnection(id string) (Connection, error) {
	if sub, ok := strings.CutPrefix(id, pollPrefix); ok {
		if c := a.o.Host.Poller(sub); c != nil {
			return c, nil
		}
	} else if n, err := strconv.ParseUint(strings.TrimPrefix(id, streamPrefix), 10, 64); err == nil && id == streamID(n) {
		if st := a.o.Host.Stream(n); st != nil {
			return st, nil
		}
	}
	return nil, fault.NotFound("connection")
}

func (a *Admin) Connection(id string) (operator.Connection, error) {
	c, err := a.findConnection(id)
	if err != nil {
		return operator.Connection{}, err
	}
	return describeConnection(c), nil
}

func (a *Admin) EndConnection(id string, e *events.Error) error {
	c, err := a.findConnection(id)
	if err != nil {
		return err
	}
	c.Terminate(cmp.Or(e, events.Forbidden("ended by an operator")))
	return nil
}
