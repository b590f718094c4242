package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// webhookOptions contains the flags for delivery by webhook and for the store.
type webhookOptions struct {
	db, callbackCA string
	preset         string
	on, dev        bool
	noExpiry       bool
	minTTL         time.Duration
	retry          []time.Duration
}

func (o *webhookOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.db, "db", "", "SQLite file for events and subscriptions; without it they are kept in memory and lost at a restart")
	fs.BoolVar(&o.on, "webhooks", false, "offer delivery by webhook to callers with a token, see -tokens")
	fs.StringVar(&o.preset, "preset", "", "follow one document to the letter: chatgpt or sep")
	fs.BoolVar(&o.dev, "dev", false, "allow callbacks on the loopback interface, with any certificate, for testing")
	fs.StringVar(&o.callbackCA, "callback-ca", "", "PEM file of an additional root to trust for callbacks")
	fs.DurationVar(&o.minTTL, "min-ttl", 0, "shortest time until a webhook subscription must be refreshed; 0 means the default of 1 min")
	fs.BoolVar(&o.noExpiry, "allow-no-expiry", false, "grant subscriptions without expiry to callers that send ttlMs: null; needs -db")
	fs.Func("retry", "waits before the attempts of a delivery, for example 0s,1s,2s; the default is 0s,5s,30s,2m,10m", func(s string) error {
		o.retry = nil
		for _, w := range strings.Split(s, ",") {
			d, err := time.ParseDuration(strings.TrimSpace(w))
			if err != nil {
				return err
			}
			o.retry = append(o.retry, d)
		}
		return nil
	})
}

func (o *webhookOptions) check() error {
	switch {
	case o.noExpiry && o.db == "":
		return errors.New("-allow-no-expiry needs -db: such a subscription has to survive a restart")
	case o.preset != "" && !o.on:
		return errors.New("-preset needs -webhooks")
	case !slices.Contains([]string{"", "chatgpt", "sep"}, o.preset):
		return fmt.Errorf("-preset %q is neither chatgpt nor sep", o.preset)
	}
	return nil
}

// openStore opens the store for the server's state.
func (o *webhookOptions) openStore(ctx context.Context) (store.Store, error) {
	if o.db == "" {
		return memory.New(), nil
	}
	return sqlite.Open(ctx, o.db, sqlite.Options{})
}

// apply sets the options of a server for webhook delivery, if it is enabled.
func (o *webhookOptions) apply(so *server.Options) error {
	if !o.on {
		return nil
	}
	w := webhooks.Options{MinTTL: o.minTTL, AllowNoExpiry: o.noExpiry, Retry: webhooks.Retry{Schedule: o.retry}}
	w.Callbacks.Loopback = o.dev
	if o.callbackCA != "" {
		roots, err := rootsWith(o.callbackCA)
		if err != nil {
			return err
		}
		w.Callbacks.TLS = &tls.Config{RootCAs: roots}
	}
	switch o.preset {
	case "chatgpt":
		w = webhooks.PresetChatGPT(w)
	case "sep":
		so.Codes = server.CodesSEP
	}
	so.Webhooks = webhooks.New(w)
	return nil
}

// rootsWith returns the system's root certificates and the certificates in a PEM file.
func rootsWith(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return roots, nil
}
