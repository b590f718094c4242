// Package monitor queries the HTTP monitoring endpoint of a nats-server.
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
	// requestTimeout is the timeout of a request.
	requestTimeout = 5 * time.Second
	// maxResponseBytes is the maximum number of bytes read from a response.
	maxResponseBytes = 1 << 20
	// maxErrorBytes is the maximum number of response bytes included in an error.
	maxErrorBytes = 256
)

// Get requests url, such as http://127.0.0.1:8222/jsz, and decodes the JSON response into answer, unless answer is nil.
// If the status is not 200, the error includes the beginning of the body.
func Get(ctx context.Context, url string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponseBytes))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %q", url, resp.Status, text[:min(len(text), maxErrorBytes)])
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}
