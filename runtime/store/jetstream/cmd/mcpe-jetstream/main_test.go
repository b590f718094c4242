package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// natsServer starts a server and returns its URL.
func natsServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// told runs the command and returns what it prints.
func told(t *testing.T, code int, env map[string]string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, func(name string) string { return env[name] }, &out, &errs); got != code {
		t.Fatalf("%q: exit code %d, want %d: %s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// prepare creates a store, a server finds its streams, and after new-life its logs are in another epoch.
func TestPrepareAndNewLife(t *testing.T) {
	url := natsServer(t)
	env := map[string]string{"NATS_URL": url}
	for range 2 { // existing streams stay
		out, _ := told(t, 0, env, "prepare", "-single", "-event", "a.b", "-event", "c", "-max-age", "1h")
		for _, want := range []string{"namespace mcpe is ready", "log of a.b is ready, at position 0", "log of c is ready"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q", out, want)
			}
		}
	}
	epoch := func() uint64 {
		s, err := jetstream.Open(t.Context(), url, jetstream.Options{Single: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		log, err := s.OpenLog(t.Context(), "a.b", store.LogOptions{MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), store.Entry{EventID: rand.Text(), Timestamp: events.NewTime(time.Now()), Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		return log.Epoch()
	}
	before := epoch()
	out, _ := told(t, 0, env, "new-life", "-single")
	if !strings.Contains(out, "replaces generation") {
		t.Error(out)
	}
	if epoch() == before {
		t.Error("the epoch is the same after new-life")
	}
}

// doctor reports its findings as text and as JSON, and by its exit code.
func TestDoctor(t *testing.T) {
	url := natsServer(t)
	out, _ := told(t, 0, nil, "doctor", "-single", url)
	for _, want := range []string{"ok    server", "stream MCPE_S does not exist", "→ run mcpe-jetstream prepare", "→ pass the monitoring", "0 failures"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %q", out, want)
		}
	}
	told(t, exitDoctor, nil, "doctor", "-single", "-strict", url)
	told(t, exitDoctor, nil, "doctor", url) // it is in no cluster
	told(t, 0, nil, "prepare", "-single", url)
	out, _ = told(t, 0, nil, "doctor", "-single", "-json", url)
	var r checkup.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Lines) == 0 || r.Failed > 0 {
		t.Errorf("%v %s", err, out)
	}
}

// A mistake in the command line gives exit code 2 and an explanation that shows no secret values.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name a verb"},
		{[]string{"restore"}, `unknown verb "restore"`},
		{[]string{"doctor"}, "needs the URL"},
		{[]string{"doctor", "-lease", "0s", "nats://127.0.0.1:1"}, "greater than 0, but is 0s"},
		{[]string{"doctor", "-leases", "1s"}, "flag provided but not defined"},
		{[]string{"prepare", "nats://a", "nats://b"}, "takes one URL, got 2"},
		{[]string{"new-life", "-tlskey", "k", "nats://a"}, "go together"},
	} {
		if _, errs := told(t, exitUsage, nil, c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%q: %s, want %q", c.args, errs, c.want)
		}
	}
	_, errs := told(t, exitUsage, map[string]string{"EVENTS_KEY": "secret!"}, "doctor", "nats://127.0.0.1:1")
	if strings.Contains(errs, "secret") || !strings.Contains(errs, "EVENTS_KEY") {
		t.Error(errs)
	}
	if _, errs := told(t, exitFailure, nil, "new-life", "nats://127.0.0.1:1"); !strings.Contains(errs, "no answer") {
		t.Error(errs)
	}
	if out, _ := told(t, 0, nil, "help"); !strings.Contains(out, "new-life") {
		t.Error(out)
	}
}
