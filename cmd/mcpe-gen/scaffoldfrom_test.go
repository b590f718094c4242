package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
)

// postGitHub posts the webhook of init's sample: one that GitHub did not sign, and one that it sends twice under one
// id.
func postGitHub(t *testing.T, base string) {
	t.Helper()
	st, err := serviceData("github", []string{"push"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		secret string
		want   int
	}{{"guessed", 401}, {"s3cret-of-ada", 204}, {"s3cret-of-ada", 204}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/github", bytes.NewReader(st.Sample))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, []byte(p.secret))
		mac.Write(st.Sample)
		for k, v := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1",
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != p.want {
			t.Errorf("signed with %s: status %d, want %d", p.secret, resp.StatusCode, p.want)
		}
	}
}
