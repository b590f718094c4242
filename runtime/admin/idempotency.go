package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// maxKey is the maximum size of an idempotency key in bytes.
	maxKey = 128
	// maxDetail is the maximum size of the stored detail of a problem in bytes.
	maxDetail = 1024
)

// An outcome is the result of an action or a problem. It is stored as JSON.
type outcome struct {
	Status int             `json:"status"`
	Code   string          `json:"code,omitempty"` // of a problem; "" for a result
	Detail string          `json:"detail,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// respond writes the outcome as the response of the API.
func (o outcome) respond(w http.ResponseWriter) {
	if o.Code != "" {
		problem(w, o.Status, o.Code, o.Detail)
		return
	}
	answer(w, o.Status, o.Result)
}

// An unstoredError is an error with an outcome that must not be stored.
type unstoredError struct{ outcome outcome }

func (u *unstoredError) Error() string { return u.outcome.Detail }

func (o outcome) encode() []byte {
	if len(o.Detail) > maxDetail {
		n := maxDetail
		for n > 0 && !utf8.RuneStart(o.Detail[n]) {
			n--
		}
		o.Detail = o.Detail[:n] + "…"
	}
	o.Detail = strings.ToValidUTF8(o.Detail, "?")
	b, _ := json.Marshal(o) // of strings and JSON: cannot fail
	return b
}
