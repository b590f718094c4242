package mcpc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// modeName is the mode of MCPC subscriptions in hooks.
const modeName = wire.MCPCProtocol

// forwardAll calls forward for every session when the set of event types has changed.
func (a *Adapter) forwardAll() {
	a.mu.Lock()
	all := slices.Collect(maps.Values(a.peers))
	a.mu.Unlock()
	for _, p := range all {
		a.forward(p)
	}
}

// forward starts to forward those event types of [Options.Forward] that are not yet forwarded to a session. All
// occurrences that are emitted after begun.Wait returns are sent.
func (a *Adapter) forward(p *peer) (begun *sync.WaitGroup) {
	begun = &sync.WaitGroup{}
	if a.o.Forward == nil || p.connection == "" {
		return begun
	}
	infos, err := a.es.Types(a.ctx, p.principal)
	if err != nil {
		a.o.Logger.Error("mcpc: the visibility check of event types failed", "error", err)
		return begun
	}
	infos = slices.DeleteFunc(infos, func(i events.Info) bool { return i.Name == wire.MCPCEvent || !a.o.Forward(i.Name) })
	for _, info := range infos {
		a.mu.Lock()
		if p.aware && !p.gone && !a.shut && p.forwards[info.Name] == nil {
			ctx, cancel := context.WithCancel(a.ctx)
			p.forwards[info.Name] = cancel
			begun.Add(1)
			a.work.Go(func() {
				a.follow(ctx, p, info.Name, begun.Done)
				cancel()
				a.mu.Lock()
				delete(p.forwards, info.Name)
				a.mu.Unlock()
			})
		}
		a.mu.Unlock()
	}
	return begun
}

// follow sends new occurrences of one type until the session ends or the type is removed. It calls begun once it has
// determined the starting position.
func (a *Adapter) follow(ctx context.Context, p *peer, event string, begun func()) {
	f, err := a.es.Follow(ctx, port.FollowRequest{Event: event, Principal: p.principal, Mode: modeName})
	begun()
	if err != nil {
		var refused *events.Error
		if !errors.As(err, &refused) && ctx.Err() == nil {
			a.o.Logger.Warn("mcpc: an event type cannot be forwarded", "event", event, "error", err)
		}
		return
	}
	defer f.Close()
	for {
		found, err := f.Next(ctx)
		if err != nil {
			return
		}
		asked := time.Now()
		check := func() error { // occurrences that wait for a slow session may no longer be sent
			if time.Since(asked) < maxPause {
				return nil
			}
			asked = time.Now()
			return a.refusal(ctx, p, event)
		}
		for _, o := range found.Occurrences {
			a.mu.Lock()
			session := p.id
			a.mu.Unlock()
			if err := a.serverEvent(ctx, p, session, event, o.Raw, check); err != nil {
				return
			}
		}
	}
}

// refusal calls the hooks. It returns their error if they refuse the type to the peer's principal, or nil.
func (a *Adapter) refusal(ctx context.Context, p *peer, event string) error {
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	err := a.es.MayFollow(ctx, p.principal, event, nil)
	var refused *events.Error
	if !errors.As(err, &refused) || refused.Kind == wire.Internal || refused.Kind == wire.UpstreamError {
		return nil // a hook that fails decides nothing
	}
	return err
}
