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
	// maxDetail is the maximum size of a problem's detail in bytes, so that every outcome can be stored.
	maxDetail = 1024
)

// An outcome is the result of an action or a problem. It is stored as JSON.
type outcome struct {
	Status int             `json:"status"`
	Code   string          `json:"code,omitempty"` // of a problem; "" for a result
	Detail string          `json:"detail,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// write writes the outcome as an API response.
func (o outcome) write(w http.ResponseWriter) {
	if o.Code != "" {
		problem(w, o.Status, o.Code, o.Detail)
		return
	}
	answer(w, o.Status, o.Result)
}

// An unfinished is an error with an outcome that must not be stored.
type unfinished struct{ outcome outcome }

func (u *unfinished) Error() string { return u.outcome.Detail }

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
