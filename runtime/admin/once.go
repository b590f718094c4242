package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// maxKey bounds the bytes of an idempotency key.
	maxKey = 128
	// maxDetail bounds those of a problem's detail, so that every outcome can be remembered.
	maxDetail = 1024
)

// An outcome is what an action came to: a problem, or a result. The store remembers it as JSON.
type outcome struct {
	Status int             `json:"status"`
	Code   string          `json:"code,omitempty"` // of a problem; "" for a result
	Detail string          `json:"detail,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// write answers it by the API.
func (o outcome) write(w http.ResponseWriter) {
	if o.Code != "" {
		problem(w, o.Status, o.Code, o.Detail)
		return
	}
	answer(w, o.Status, o.Result)
}

// An unfinished outcome is one that is not remembered.
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
