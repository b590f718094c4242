package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

func TestWebhookFlags(t *testing.T) {
	for argv, want := range map[string]string{
		"-http :0 -webhooks -allow-no-expiry": "needs -db",
		"-http :0 -preset chatgpt":            "needs -webhooks",
		"-http :0 -webhooks -preset other":    "neither chatgpt nor sep",
		"-http :0 -retry 1s,x":                "invalid",
		"-webhooks":                           "give -http",
	} {
		if _, err := parse(strings.Fields(argv), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
	o, err := parse(strings.Fields("-http :0 -webhooks -retry 0s,1s,2s -min-ttl 5s -db f -allow-no-expiry -dev"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var so server.Options
	if err := o.webhooks.apply(&so); err != nil {
		t.Fatal(err)
	}
	w := so.Webhooks.Value().Options.(*webhooks.Options)
	if len(w.Retry.Schedule) != 3 || w.Retry.Schedule[2] != 2*time.Second || w.MinTTL != 5*time.Second || !w.AllowNoExpiry || !w.Callbacks.Loopback {
		t.Errorf("options %+v", w)
	}
}

func TestCallbackCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&webhookOptions{on: true, callbackCA: file}).apply(new(server.Options)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without a certificate: %v", err)
	}
}
