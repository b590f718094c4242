package subscriber

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Any process that serves the store can handle the requests in this file (REP-11). It first changes the record, then
// notifies the owner and finally answers the caller. If its lease is still valid after the change, the process is
// itself the owner, and no other process can have owned the shard in between.

// errConflict is returned if another process changes a record during a request.
var errConflict = errors.New("the subscription was changed by another process")

// maxRounds is the maximum number of attempts to execute a request that conflicts with other requests.
const maxRounds = 8

// Subscribe refreshes the subscription with the request's id, or creates it if it does not exist. If it returns an
// error, an existing subscription is unchanged, and no new subscription is created (ERR-2).
func (w *Subscriptions) Subscribe(ctx context.Context, q *Request) (*Result, error) {
	unlock, err := w.keys.Lock(ctx, q.Sub.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for range maxRounds {
		var res *Result
		known, ok, err := w.findRecord(ctx, q.Sub.ID)
		switch {
		case err != nil:
		case ok:
			res, err = w.refresh(ctx, q, &known)
		default:
			res, err = w.createSubscription(ctx, q, &known)
		}
		if !errors.Is(err, errConflict) {
			return res, err
		}
	}
	return nil, fault.Typed(errConflict)
}

// findRecord returns the record with the id. The result ok is false if the record does not exist or has expired. If
// this process has yet to restore or to end the subscription, findRecord does so first. The caller must hold the key.
func (w *Subscriptions) findRecord(ctx context.Context, id string) (r store.Subscription, ok bool, err error) {
	known, err := w.readRecord(ctx, id)
	if err == nil && w.isOutdated(id, known) {
		if err = w.reconcile(ctx, id, known); err != nil && !errors.Is(err, errShardClosed) {
			return r, false, fault.Typed(err)
		}
		if known, err = w.readRecord(ctx, id); err == nil && w.hasEnded(known) && w.Get(id) != nil {
			err = errConflict // another process keeps changing it
		}
	}
	if err != nil || known == nil {
		return r, false, err
	}
	return *known, !w.hasEnded(known), nil
}

// isOutdated reports whether this process has yet to restore or to end the subscription of a record.
func (w *Subscriptions) isOutdated(id string, r *store.Subscription) bool {
	live := w.Get(id) != nil
	if live || w.hasEnded(r) {
		return live && w.hasEnded(r)
	}
	p := w.ownedShardOf(shardOfRecord(r))
	return p != nil && p.needsRestore(r)
}

// createSubscription creates a new subscription. If an expired record exists, it is replaced.
func (w *Subscriptions) createSubscription(ctx context.Context, q *Request, lapsed *store.Subscription) (*Result, error) {
	if lapsed.Revision == 0 {
		if err := w.checkQuotas(ctx, q.Sub.Principal); err != nil {
			return nil, err
		}
	}
	// Check the memory quota first. Release this charge after the live subscription has its own charge (CAP-5).
	charge := w.argumentsSize(q.Args)
	if err := w.host.Take(q.Sub.Principal, charge); err != nil {
		return nil, err
	}
	defer w.host.Give(q.Sub.Principal, charge)
	n, err := w.shards(ctx, q.Sub.Event)
	if err != nil {
		return nil, err
	}
	at, err := w.startPoint(ctx, q)
	if err != nil {
		return nil, err
	}
	keys := webhook.NewRing(q.Secret)
	p := verify.Pair{Principal: q.Sub.Principal, URL: q.RawURL}
	candidate := &verify.Candidate{Pair: p, ID: q.Sub.ID, At: q.URL, Ring: keys, Live: func() bool { return w.isLive(p) }}
	answered, err := w.verifier.Verify(ctx, candidate)
	if err != nil {
		return nil, err
	}
	if err := w.host.Join(ctx, q.Sub, q.Args); err != nil {
		return nil, fault.Typed(err)
	}
	now := w.Now()
	r := store.Subscription{ID: q.Sub.ID, Principal: q.Sub.Principal, URL: q.RawURL, Event: q.Sub.Event,
		Arguments: q.Args.Canonical(),
		Shard:     shardOf(q.Sub.Event, q.Args, q.Sub.Principal, n), Schema: q.Args.Def.Fingerprint(),
		Secrets: ring.Stored(keys), Codes: int(q.Dialect), Generation: newGeneration(), Revision: lapsed.Revision,
		Admitted: q.Admitted, CreatedAt: now, RefreshedAt: now, ExpiresAt: w.grantExpiry(q, now), Progress: at.progress,
		NotBefore: now.Add(ReplyTime)}
	owner := w.ownedShardOf(shardOfRecord(&r))
	if err := w.storeWithQuota(ctx, &r); err != nil {
		var full *engine.QuotaError
		switch {
		case errors.Is(err, store.ErrConflict):
			w.host.Release(q.Sub, q.Args) // another process created it at the same time
			return nil, errConflict
		case errors.As(err, &full):
			err = fault.Exhausted("subscriptions", full.Limit)
		}
		w.host.Leave(q.Sub, q.Args)
		return nil, err
	}
	r.Progress.Open = true // as stored by admit
	b := &beginning{request: q, answered: answered}
	if err := w.beginCreated(ctx, owner, &r, b); err != nil {
		w.deleteUnstarted(&r)
		w.host.Leave(q.Sub, q.Args)
		return nil, err
	}
	cursor := &at.cursor
	if q.Args.Def.Check() == nil {
		cursor = q.Type.Topic().Cursor(q.Args.Def.Kernel(), at.progress.Base)
	}
	return &Result{ID: q.Sub.ID, RefreshBefore: formatTime(r.ExpiresAt), Cursor: cursor, Truncated: at.truncated || b.truncated}, nil
}

// beginCreated begins a subscription with a new record if this process owns its shard. Otherwise it notifies the owner.
// The parameter owner is the owned shard as of before the record was stored.
func (w *Subscriptions) beginCreated(ctx context.Context, owner *ownedShard, r *store.Subscription, b *beginning) (err error) {
	p := w.ownedShardOf(shardOfRecord(r))
	there := p != nil
	if there && p != owner { // another process may have owned the shard in between, and delivered
		there, err = w.readProgress(ctx, r)
	}
	if there {
		err = w.begin(ctx, p, r, b)
	}
	if errors.Is(err, errShardClosed) && w.ctx.Err() == nil {
		err = nil // its next owner reads the record
	}
	if err != nil || b.live != nil && b.live.Ours() {
		return err
	}
	err = w.notifyOwner(ctx, r) // it may have read the shard before the record existed
	switch {
	case b.live != nil && err != nil:
		w.o.Log.Internal(ctx, "telling of webhook subscription "+r.ID, err)
		err = nil
	case err == nil && b.live == nil:
		w.host.Release(b.request.Sub, b.request.Args) // its owner calls Join
	}
	return err
}

// notifyOwner notifies the owner of a changed record, even if ctx is canceled.
func (w *Subscriptions) notifyOwner(ctx context.Context, r *store.Subscription) error {
	ctx, cancel := notifyContext(ctx)
	defer cancel()
	return w.cluster.Tell(ctx, r.ID, shardOfRecord(r))
}

// notifyContext returns a context for a notification that must be sent even if the caller's context is done.
func notifyContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), finishTime)
}

// shardOfRecord returns the shard of a record.
func shardOfRecord(r *store.Subscription) engine.Shard {
	return engine.Shard{Topic: r.Event, Number: r.Shard}
}

// shardOf returns the shard number of a subscription to an event type with n shards. Subscriptions that read the same
// feed are in the same shard (REP-6).
func shardOf(event string, a eventtype.Arguments, principal string, n int) int {
	if c := a.Def.Check(); c != nil && c.Shared {
		principal = ""
	}
	key := sha256.New()
	for _, part := range [][]byte{[]byte(event), a.Canonical(), []byte(principal)} {
		key.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		key.Write(part)
	}
	return int(binary.BigEndian.Uint64(key.Sum(nil)) % uint64(n))
}

// Establish creates the shards of an event type.
func (w *Subscriptions) Establish(ctx context.Context, event string) error {
	_, err := w.shards(ctx, event)
	return err
}

// shards returns the number of shards of an event type and creates them if necessary.
func (w *Subscriptions) shards(ctx context.Context, event string) (int, error) {
	w.mu.Lock()
	n := w.counts[event]
	w.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	n, err := w.store.Establish(ctx, event, w.cluster.Shards)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[event] = n
	return n, nil
}

// checkQuotas checks the quotas before the endpoint is verified and the hooks are called. It does not reserve them. The
// quotas are reserved when the record is stored (REP-12).
func (w *Subscriptions) checkQuotas(ctx context.Context, principal string) error {
	own, all, err := w.store.CountSubscriptions(ctx, principal)
	switch q := w.o.Quota; {
	case err != nil:
		return err
	case q.PerPrincipal >= 0 && own >= q.PerPrincipal:
		return fault.Exhausted("subscriptions", q.PerPrincipal)
	case q.Total >= 0 && all >= q.Total:
		return fault.Exhausted("subscriptions", q.Total)
	}
	return nil
}

// storeWithQuota stores a new record if the quotas allow it.
func (w *Subscriptions) storeWithQuota(ctx context.Context, r *store.Subscription) error {
	quota := engine.Quota{Own: max(w.o.Quota.PerPrincipal, 0), All: max(w.o.Quota.Total, 0)}
	revision, err := w.store.Admit(ctx, *r, quota)
	if w.o.Admitted != nil {
		w.o.Admitted(ctx, err)
	}
	return w.confirmStored(r, revision, err)
}

// confirmStored handles the result of a write that stores a record with a new generation. If the store's response was
// lost, confirmStored reads the record to determine whether the write was successful.
func (w *Subscriptions) confirmStored(r *store.Subscription, revision uint64, err error) error {
	if err == nil {
		r.Revision = revision
		return nil
	}
	if errors.Is(err, store.ErrConflict) || errors.Is(err, engine.ErrQuota) {
		return err
	}
	ctx, cancel := finishContext()
	defer cancel()
	if now, ok, readErr := w.store.Subscription(ctx, r.ID); readErr == nil && ok && now.Generation == r.Generation {
		r.Revision = now.Revision
		return nil
	}
	return err
}

// readProgress updates the progress, health and report of r from the store. The result there reports whether the record still
// exists with the same generation.
func (w *Subscriptions) readProgress(ctx context.Context, r *store.Subscription) (there bool, err error) {
	now, ok, err := w.store.Subscription(ctx, r.ID)
	if err != nil || !ok || now.Generation != r.Generation {
		return false, err
	}
	r.Progress, r.Health, r.Report = now.Progress, now.Health, now.Report
	return true, nil
}

// refresh extends a subscription (SUB-5).
func (w *Subscriptions) refresh(ctx context.Context, q *Request, known *store.Subscription) (*Result, error) {
	if err := w.verifyRefresh(ctx, q, known); err != nil {
		return nil, err
	}
	lost, err := hasLostPosition(ctx, q)
	if err != nil {
		return nil, err
	}
	var found store.Subscription
	var unusable error
	r, err := w.editRecord(ctx, q.Sub.ID, func(r *store.Subscription) bool {
		found = *r
		unusable = nil
		if Lapsed(r, w.Now()) {
			unusable = errConflict
			return false
		}
		unusable = w.applyRefresh(r, q)
		return unusable == nil
	})
	if err == nil {
		err = unusable
	}
	switch {
	case errors.Is(err, errNoRecord):
		return nil, errConflict
	case err != nil:
		return nil, err
	}
	res := &Result{ID: q.Sub.ID, RefreshBefore: formatTime(r.ExpiresAt), Truncated: found.Truncated || lost}
	if h := w.Get(q.Sub.ID); h != nil {
		status, ok := w.applyRecord(h, &r)
		if ok {
			q.holdDeliveries(h, w.Now)
		}
		if ok && h.Ours() {
			res.Cursor, res.DeliveryStatus = h.Handle.Watermark(), statusOf(status)
			return res, nil
		}
	}
	if res.Cursor, err = w.storedCursor(ctx, q.Type, q.Args.Def, &r); err != nil {
		return nil, err
	}
	if err := w.notifyOwner(ctx, &r); err != nil {
		return nil, err
	}
	res.DeliveryStatus = statusOf(recordStatus(&found))
	return res, nil
}

// recordStatus returns the delivery status stored in a record.
func recordStatus(r *store.Subscription) delivery.Status {
	return delivery.Status{Active: !r.Health.Suspended && r.PausedAt.IsZero(), Paused: !r.PausedAt.IsZero(), Suspended: r.Health.Suspended,
		LastDeliveryAt: r.Health.LastDeliveryAt, LastError: wire.Category(r.Health.LastError), FailedSince: r.Health.FailedSince}
}

// storedCursor returns the safe cursor of a subscription according to the store (HOOK-6).
func (w *Subscriptions) storedCursor(ctx context.Context, et eventtype.Type, d eventtype.Definition,
	r *store.Subscription) (*string, error) {
	if d.Check() != nil {
		return &r.Progress.Upstream, nil
	}
	t := et.Topic()
	if r.Progress.Epoch != t.Epoch() {
		oldest, _ := t.Bounds()
		return t.Cursor(d.Kernel(), oldest-1), nil
	}
	base := r.Progress.Base
	if !r.Progress.Open {
		// Read the mark first. If the mark is past an entry that the subscription must receive, the record read
		// afterwards is open.
		mark, err := w.store.Owned(engine.ShardFence{Shard: shardOfRecord(r)}).Mark(ctx, r.Event)
		if err != nil {
			return nil, err
		}
		now := *r
		there, err := w.readProgress(ctx, &now)
		if err != nil {
			return nil, err
		}
		if base = now.Progress.Base; there && !now.Progress.Open {
			base = max(base, mark)
		}
	}
	if base > t.Head() {
		head, err := t.Latest(ctx)
		if err != nil {
			return nil, err
		}
		if base > head { // an older copy of the log was restored; its owner is about to notice
			oldest, _ := t.Bounds()
			base = oldest - 1
		}
	}
	return t.Cursor(d.Kernel(), base), nil
}

// Remove ends the subscription with the id without an envelope. It returns false if the subscription does not exist.
// Remove deletes the record before it stops deliveries, so the removal survives a crash. It notifies the owner even if
// the record does not exist, because the process that deleted the record might have crashed before it notified the
// owner.
func (w *Subscriptions) Remove(ctx context.Context, id string) (bool, error) {
	unlock, err := w.keys.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, ok, err := w.store.Subscription(ctx, id)
	if err != nil {
		return false, err
	}
	of := engine.Shard{}
	if ok {
		of = shardOfRecord(&r)
		if err := w.store.DeleteSubscription(ctx, id, r.Generation); err != nil {
			return false, err
		}
	}
	if h := w.Get(id); h != nil {
		if h.Ours() && w.endLive(ctx, h, endUnsubscribed) {
			return ok && !Lapsed(&r, w.Now()), nil
		}
		w.endLive(ctx, h, endMoved) // its owner calls OnUnsubscribe
	}
	ctx, cancel := notifyContext(ctx)
	defer cancel()
	if err := w.cluster.Tell(ctx, id, of); err != nil {
		return false, err
	}
	return ok && !Lapsed(&r, w.Now()), nil
}

// admittedRecords stores verifications and reserves their quotas in one step (REP-12).
type admittedRecords struct {
	Records
	q engine.Quota
}

// PutVerification implements [verify.Records].
func (s admittedRecords) PutVerification(ctx context.Context, v store.Verification) error {
	err := s.AdmitVerification(ctx, v, s.q)
	var full *engine.QuotaError
	if errors.As(err, &full) {
		return fault.Exhausted("verifications", full.Limit)
	}
	return err
}

// Describe returns the safe cursor of a subscription according to its record, or nil if it is unknown.
func (w *Subscriptions) Describe(ctx context.Context, r *store.Subscription) *string {
	et, ok := w.host.Type(r.Event)
	if !ok || et.Current() == nil || et.Current().Kernel().NoReplay {
		return nil
	}
	cursor, err := w.storedCursor(ctx, et, et.Current(), r)
	if err != nil {
		return nil
	}
	return cursor
}
