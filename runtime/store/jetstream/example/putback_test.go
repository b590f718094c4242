package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// A backup has the output of nats stream backup, which nats stream restore reads.
type backup struct {
	stream string
	about  map[string]json.RawMessage // config and state
	chunks [][]byte
}

// asks calls the servers' API and decodes the answer.
func asks(t *testing.T, c *nats.Conn, subject, body string, answer any) {
	t.Helper()
	m, err := c.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	said(t, m, answer)
}

func said(t *testing.T, m *nats.Msg, answer any) {
	t.Helper()
	var failed struct {
		Error *natsjs.APIError `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(m.Data, &failed), json.Unmarshal(m.Data, answer)); err != nil || failed.Error != nil {
		t.Fatalf("%s: %v, %v", m.Data, err, failed.Error)
	}
}

// backsUp takes a backup of a stream.
func backsUp(t *testing.T, c *nats.Conn, stream string) backup {
	t.Helper()
	inbox := c.NewInbox()
	sub, err := c.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	b := backup{stream: stream}
	asks(t, c, "$JS.API.STREAM.SNAPSHOT."+stream, fmt.Sprintf(`{"deliver_subject": %q}`, inbox), &b.about)
	for {
		m, err := sub.NextMsg(20 * time.Second)
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
		if len(m.Data) == 0 {
			if why := m.Header.Get("Description"); m.Header.Get("Status") != "" && why != "EOF" && why != "" {
				t.Fatalf("%s: %v", stream, m.Header)
			}
			return b
		}
		b.chunks = append(b.chunks, m.Data)
		if m.Reply != "" {
			if err := m.Respond(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// putsBack deletes the stream and restores the backup of it.
func putsBack(t *testing.T, c *nats.Conn, b backup) {
	t.Helper()
	var answer struct {
		Deliver string `json:"deliver_subject"`
	}
	asks(t, c, "$JS.API.STREAM.DELETE."+b.stream, "", &answer)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // until the servers have forgotten the stream
		body, err := json.Marshal(map[string]any{"config": b.about["config"], "state": b.about["state"]})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Request("$JS.API.STREAM.RESTORE."+b.stream, body, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(m.Data), `"error"`) || time.Now().After(end) {
			said(t, m, &answer)
			break
		}
	}
	for _, chunk := range append(b.chunks, nil) {
		m, err := c.Request(answer.Deliver, chunk, time.Minute)
		for end := time.Now().Add(time.Minute); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(end); { // the servers do not know yet who restores
			time.Sleep(20 * time.Millisecond)
			m, err = c.Request(answer.Deliver, chunk, time.Minute)
		}
		if err != nil {
			t.Fatalf("%s: %v", b.stream, err)
		}
		if len(m.Data) > 0 {
			said(t, m, &struct{}{})
		}
	}
}

// A restore as in docs/jetstream.md, by the users of nats.conf with minimal rights (JS-13, JS-14, JS-44): afterwards
// the program serves in another epoch, without the events acknowledged since the backup.
func TestPutBack(t *testing.T) {
	of, _ := cluster(t)
	command := built(t)
	prepared(t, command, of("prepare"))
	serves := func(tickets ...string) error {
		base, stop, err := served(t, options{nats: of("serve")})
		if err != nil {
			return err
		}
		for _, id := range tickets {
			if status, why := opens(t, base, id, "high"); status != http.StatusCreated {
				t.Errorf("ticket %s: %d %s", id, status, why)
			}
		}
		return stop()
	}
	if err := serves("1", "2"); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(of("operator"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var list struct{ Streams []string }
	asks(t, c, "$JS.API.STREAM.NAMES", "", &list)
	var kept []backup
	for _, begins := range []string{"MCPE_S", "MCPE_L_"} {
		for _, name := range list.Streams {
			if strings.HasPrefix(name, begins) {
				kept = append(kept, backsUp(t, c, name))
			}
		}
	}
	if len(kept) != 4 {
		t.Fatalf("%d backups of %q", len(kept), list.Streams)
	}
	if err := serves("3", "4", "5"); err != nil {
		t.Fatal(err)
	}
	epoch, head := ends(t, of("operator"))
	if head != 5 {
		t.Fatalf("the log ends at %d", head)
	}
	for _, b := range kept {
		putsBack(t, c, b)
	}
	out, err := command("new-life", of("prepare"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := serves(); !errors.Is(err, jetstream.ErrRights) {
		t.Errorf("before prepare the program ends with %v", err)
	}
	prepared(t, command, of("prepare"))
	if err := serves("3", "6"); err != nil {
		t.Fatal(err)
	}
	now, head := ends(t, of("operator"))
	if now == epoch || head != 4 {
		t.Errorf("the log ends at %d, in epoch %d; before it was in %d", head, now, epoch)
	}

	// If one stream is restored while the program serves, which may not begin another epoch of it, the program
	// reports that, and acknowledges no lost events.
	base, stop, err := served(t, options{nats: of("serve")})
	if err != nil {
		t.Fatal(err)
	}
	putsBack(t, c, kept[slices.IndexFunc(kept, func(b backup) bool { return strings.HasSuffix(b.stream, "ticket~created") })])
	becomes := func(what string, want int, ask func() (int, string)) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			status, why := ask()
			if status == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s is %d %s", what, status, why)
			}
		}
	}
	health := func() (int, string) {
		r, err := http.Get(base + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode, ""
	}
	ticket := func() (int, string) { return opens(t, base, "7", "high") }
	becomes("the ticket", http.StatusServiceUnavailable, ticket) // the ticket may be stored under the old epoch before a look
	becomes("health", http.StatusServiceUnavailable, health)
	prepared(t, command, of("prepare"))
	becomes("the ticket", http.StatusCreated, ticket)
	becomes("health", http.StatusOK, health)
	if again, head := ends(t, of("operator")); again == now || head != 3 {
		t.Errorf("the log ends at %d, in epoch %d; before it was in %d", head, again, now)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// ends returns the epoch of the tickets' log, and its head.
func ends(t *testing.T, url string) (epoch uint64, head store.Position) {
	t.Helper()
	s, err := jetstream.Open(t.Context(), url, jetstream.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.OpenLog(t.Context(), "ticket.created", limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, head, err = l.Bounds(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l.Epoch(), head
}
