package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"net"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// receiverOptions contains the flags for receiving webhooks.
type receiverOptions struct {
	listen, publicURL, cert, key string
}

func (o *receiverOptions) register(fs *flag.FlagSet) {
	fs.StringVar(&o.listen, "listen", "", "address to receive webhooks on, for example :8443")
	fs.StringVar(&o.publicURL, "public-url", "", "https URL at which servers reach -listen; default https:// and the address listened on")
	fs.StringVar(&o.cert, "tls-cert", "", "certificate file for -listen; without one something in front has to end TLS")
	fs.StringVar(&o.key, "tls-key", "", "key file of -tls-cert")
}

func (o *receiverOptions) check() error {
	switch {
	case o.listen == "" && *o != (receiverOptions{}):
		return errors.New("-public-url, -tls-cert and -tls-key need -listen")
	case (o.cert == "") != (o.key == ""):
		return errors.New("-tls-cert and -tls-key go together")
	}
	return nil
}

// open starts listening for webhooks if -listen is set.
func (o *receiverOptions) open() (*client.WebhookOptions, error) {
	if o.listen == "" {
		return nil, nil
	}
	w := &client.WebhookOptions{PublicURL: o.publicURL}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, err
		}
		w.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	var err error
	if w.Listener, err = net.Listen("tcp", o.listen); err != nil {
		return nil, err
	}
	if w.PublicURL == "" {
		w.PublicURL = "https://" + w.Listener.Addr().String()
	}
	return w, nil
}
