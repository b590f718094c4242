package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// operatorOptions contains the flags of the operators' console.
type operatorOptions struct {
	file, hosts string
	payloads    bool
}

func (o *operatorOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.file, "operators", "", "JSON file with an object of bearer token to operator; with it the operators' console and API are on /ops/")
	fs.StringVar(&o.hosts, "operator-hosts", "localhost,127.0.0.1,[::1]", "names by which operators reach the console, separated by commas")
	fs.BoolVar(&o.payloads, "operator-payloads", false, "show payloads in the console's live tail")
}

func (o *operatorOptions) check(http string) error {
	if o.file != "" && http == "" {
		return errors.New("-operators needs -http")
	}
	return nil
}

// mount adds the health probes and, if there are operators, their console.
func (o *operatorOptions) mount(mux *http.ServeMux, es *server.Server, log *slog.Logger) error {
	mux.Handle("/healthz", transport.HealthHandler(es))
	mux.Handle("/readyz", transport.ReadyHandler(es))
	if o.file == "" {
		return nil
	}
	b, err := os.ReadFile(o.file)
	if err != nil {
		return err
	}
	var byToken map[string]string
	if err := json.Unmarshal(b, &byToken); err != nil {
		return fmt.Errorf("%s: want a JSON object of token to operator: %w", o.file, err)
	}
	tokens := map[string]string{}
	for token, operator := range byToken {
		tokens[operator] = token
	}
	if len(tokens) != len(byToken) {
		return fmt.Errorf("%s: an operator has two tokens", o.file)
	}
	console, err := admin.NewHandler(es, admin.Options{Authenticate: admin.Tokens(tokens), Hosts: strings.Split(o.hosts, ","),
		ShowPayloads: o.payloads, Logger: log})
	if err != nil {
		return err
	}
	mux.Handle("/ops/", http.StripPrefix("/ops", console))
	return nil
}
