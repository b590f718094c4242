package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// Streams of the store.
const (
	logStream   = "MCPE_L_ticket~created"
	stateStream = "MCPE_S"
	plainStream = "PLAIN"
)

// requestTimeout is the timeout of a campaign request that is not retried.
const requestTimeout = 2 * time.Second

// A database is a cluster of three nats-servers.
type database struct {
	faults  faults
	servers *servers
	conn    *nats.Conn
	js      js.JetStream

	mu    sync.Mutex
	store *jetstream.Store // of the campaign, without a lease; nil until it is needed

	plain      sync.WaitGroup
	publishing context.Context
	stop       context.CancelFunc
	acked      map[uint64]string // acknowledged messages of the plain stream, by sequence
	retried    int
	pauses     []time.Duration // during which the state took no writes
}

// startDatabase launches the servers and the plain publisher.
func startDatabase(ctx context.Context, dir string, f faults) (_ *database, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &database{faults: f, acked: map[uint64]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop())
		}
	}()
	if d.servers, err = newServers(ctx, program, dir, nil); err != nil {
		return nil, err
	}
	if d.conn, err = nats.Connect(d.servers.directURLs(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond)); err != nil {
		return nil, err
	}
	if d.js, err = js.New(d.conn); err != nil {
		return nil, err
	}
	if err := d.createPlainStream(ctx); err != nil {
		return nil, err
	}
	d.publishing, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	d.plain.Go(func() { d.publish(d.publishing) })
	return d, nil
}

// createPlainStream creates the stream that publish uses if it does not exist. The servers cannot create it while they
// have no leader, so createPlainStream retries for up to recoveryTimeout.
func (d *database) createPlainStream(ctx context.Context) error {
	config := js.StreamConfig{Name: plainStream, Subjects: []string{"plain.>"}, Replicas: nodeCount, Storage: js.FileStorage}
	for end := time.Now().Add(recoveryTimeout); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		_, err := d.js.CreateOrUpdateStream(ctx, config)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// Stop implements [campaign.Database].
func (d *database) Stop() (err error) {
	if d.stop != nil {
		d.stop()
	}
	d.plain.Wait()
	if d.store != nil {
		err = d.store.Close()
	}
	if d.conn != nil {
		d.conn.Close()
	}
	if d.servers != nil {
		err = errors.Join(err, d.servers.stop())
	}
	return err
}

// URL implements [campaign.Database].
func (d *database) URL(replica int) string { return d.servers.replicaURLs(replica) }

// publish sends messages to a separate stream with the plain client until ctx is done, and records the acknowledged
// messages.
func (d *database) publish(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		text := fmt.Sprint("plain-", n)
		bound, cancel := context.WithTimeout(ctx, requestTimeout)
		ack, err := d.js.Publish(bound, "plain."+text, []byte(text))
		cancel()
		if err == nil {
			d.acked[ack.Sequence] = text
		} else {
			d.retried++ // with the next number, because this message may be stored
		}
		campaign.Sleep(ctx, 20*time.Millisecond)
	}
}

// quorumTimeout is the timeout of a quorum check. A longer period without a successful check is recorded as a pause.
const quorumTimeout = time.Second

// recordPauses records the periods in which no server accepts writes to the state, until ctx is done. During these
// periods, a replica cannot store its delivery progress.
func (d *database) recordPauses(ctx context.Context, c *campaign.Campaign) {
	var conns [nodeCount]*nats.Conn
	for i, n := range d.servers.nodes {
		conn, err := nats.Connect("nats://"+n.client, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true))
		if err != nil {
			return // the address is bad
		}
		defer conn.Close()
		conns[i] = conn
	}
	for from := time.Now(); campaign.Sleep(ctx, 100*time.Millisecond); {
		one, cancel := context.WithTimeout(ctx, quorumTimeout)
		answers := make(chan bool, nodeCount)
		for _, conn := range conns {
			go func() {
				m, err := conn.RequestWithContext(one, "$JS.API.STREAM.MSG.DELETE."+stateStream, []byte(`{"seq":4611686018427387904,"no_erase":true}`))
				answers <- err == nil && strings.Contains(string(m.Data), `"err_code":10057`) // a quorum found nothing to delete
			}()
		}
		takes := false
		for range conns {
			takes = <-answers || takes
			if takes {
				break
			}
		}
		cancel()
		if now := time.Now(); takes {
			if now.Sub(from) > quorumTimeout {
				c.Window("the state took no writes", nil, from, now)
				d.pauses = append(d.pauses, now.Sub(from))
			}
			from = now
		}
	}
}

// Note implements [campaign.Database]. It reports the messages that plain JetStream lost in the same run, and how long
// the state accepted no writes.
func (d *database) Note(ctx context.Context) string {
	d.stop()
	d.plain.Wait()
	lost, first := 0, ""
	stream, err := d.js.Stream(ctx, plainStream)
	if err != nil {
		return fmt.Sprint("The plain stream cannot be read: ", err)
	}
	stood := map[uint64]string{}
	if err := forEachMessage(ctx, stream, func(m js.Msg, at uint64) error {
		stood[at] = string(m.Data())
		return nil
	}); err != nil {
		return fmt.Sprint("The plain stream cannot be read: ", err)
	}
	for at, text := range d.acked {
		if stood[at] != text {
			lost++
			first = fmt.Sprintf(", for example %s at %d, which has %q", text, at, stood[at])
		}
	}
	var longest, all time.Duration
	for _, p := range d.pauses {
		longest, all = max(longest, p), all+p
	}
	return fmt.Sprintf("Plain JetStream: %d publishes acknowledged, %d not, %d lost%s.\nThe state took no writes %d times, for %v at most and %v in all.",
		len(d.acked), d.retried, lost, first, len(d.pauses), longest.Round(time.Millisecond), all.Round(time.Millisecond))
}

// openStore returns the store that the campaign uses to observe the replicas.
func (d *database) openStore(ctx context.Context) (*jetstream.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.store == nil {
		s, err := jetstream.Open(ctx, d.servers.directURLs(), jetstream.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		d.store = s
	}
	return d.store, nil
}

// Owner implements [campaign.Database].
func (d *database) Owner(ctx context.Context, topic string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := d.openStore(ctx)
	if err != nil {
		return "", err
	}
	cluster, err := s.Cluster(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range cluster.Shards {
		for _, r := range cluster.Replicas {
			if h.Shard.Topic == topic && h.Fence == r.Fence {
				return r.Name, nil
			}
		}
	}
	return "", nil
}

// Waiting implements [campaign.Database].
func (d *database) Waiting(context.Context) (int, error) { return 0, errors.New("there is no outbox") }

// Subscriptions implements [campaign.Database].
func (d *database) Subscriptions(ctx context.Context, principal string) (n int, err error) {
	s, err := d.openStore(ctx)
	if err != nil {
		return 0, err
	}
	const page = 100
	for after := ""; ; {
		all, err := s.Subscriptions(ctx, after, page)
		if err != nil {
			return 0, err
		}
		for _, x := range all {
			if after = x.ID; x.Principal == principal {
				n++
			}
		}
		if len(all) < page {
			return n, nil
		}
	}
}

// Story implements [campaign.Database].
func (d *database) Story(ctx context.Context, path string) string {
	var b strings.Builder
	s, err := d.openStore(ctx)
	if err != nil {
		return fmt.Sprintln("    ", err)
	}
	all, err := s.Subscriptions(ctx, "", 1000)
	for _, x := range all {
		if strings.Contains(x.URL, path) {
			x.Secrets = nil
			fmt.Fprintf(&b, "    %+v\n", x)
		}
	}
	cluster, e := s.Cluster(ctx)
	fmt.Fprintf(&b, "    %+v\n    %v\n", cluster, errors.Join(err, e))
	return b.String()
}

var ticketID = regexp.MustCompile(`"ticketId":"([^"]*)"`)

// Log implements [campaign.Database]. It reads the stream directly, because an entry contains its data as text.
func (d *database) Log(ctx context.Context) (ids []string, err error) {
	stream, err := d.js.Stream(ctx, logStream)
	if err != nil {
		return nil, err
	}
	err = forEachMessage(ctx, stream, func(m js.Msg, at uint64) error {
		id := ""
		if found := ticketID.FindSubmatch(m.Data()); found != nil {
			id = string(found[1])
		}
		if ids = append(ids, id); at != uint64(len(ids)) {
			return fmt.Errorf("the log has position %d, want %d", at, len(ids))
		}
		return nil
	})
	return ids, err
}

// forEachMessage calls f for every message in a stream, in order.
func forEachMessage(ctx context.Context, stream js.Stream, f func(m js.Msg, at uint64) error) error {
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, js.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(js.NextMaxWait(recoveryTimeout))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := f(m, meta.Sequence.Stream); err != nil || meta.Sequence.Stream >= info.State.LastSeq {
			return err
		}
	}
}
