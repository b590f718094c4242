package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

var pager = &http.Client{Timeout: 10 * time.Second}

// call sends a page. The pager uses the key to drop duplicates, because an event may be handled more than once.
func call(ctx context.Context, key, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("PAGER_URL"), strings.NewReader(url.Values{"key": {key}, "text": {text}}.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := pager.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the pager answers %s", resp.Status)
	}
	return nil
}
