// Package monitor reads the HTTP monitoring of a nats-server.
package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
)

const (
	// timeout bounds one request.
	timeout = 5 * time.Second
	// maxAnswer bounds the bytes that are read of an answer.
	maxAnswer = 1 << 20
	// maxShown bounds the bytes of an answer that an error shows.
	maxShown = 256
)

// Get requests url, such as http://127.0.0.1:8222/jsz, and decodes the JSON answer into answer, unless that is nil.
// It returns an error with the beginning of the body if the status is not 200.
func Get(ctx context.Context, url string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", useragent.Default())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %q", url, resp.Status, text[:min(len(text), maxShown)])
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}
