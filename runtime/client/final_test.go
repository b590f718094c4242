package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// CLI-6, CLI-7, PUSH-5: one question tells what ends an iteration from what stands between events.
func TestFinal(t *testing.T) {
	forbidden := events.Forbidden("")
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{&RecoverableError{Err: forbidden}, false},
		{&PayloadError{Err: errors.New("x")}, false},
		{&CommitError{Err: context.Canceled}, false},
		{fmt.Errorf("reading: %w", &CommitError{Err: ErrClosed}), false},
		{&TerminatedError{Err: forbidden}, true},
		{&TerminatedError{Err: &RecoverableError{Err: forbidden}}, true},
		{&StatusError{Status: 403}, true},
		{forbidden, true},
		{ErrClosed, true},
		{ErrSessionLost, true},
		{errIterating, true},
		{context.Canceled, true},
	} {
		if got := Final(tc.err); got != tc.want {
			t.Errorf("Final(%v) is %v", tc.err, got)
		}
	}
}

// PUSH-5, CLI-7: what Final says of the errors of an iteration is what the iteration does.
func TestFinalAgreesWithIteration(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			st.send(wire.NotificationError, `{"error":{"code":-32603,"message":"UpstreamError"}}`)
			st.event("e1", "c1")
			st.terminated(f.err(wire.Forbidden, "{}"))
			return nil, nil
		}
		var got []string
		for ev, err := range subscribe(t, connect(t, f, c, Options{})).Events() {
			got = append(got, fmt.Sprint(ev.ID, err != nil, Final(err)))
		}
		if strings.Join(got, " ") != "true false e1false false true true" {
			t.Errorf("got %v", got)
		}
	})
}

// A refusal of the handshake says so plainly, with what the server wrote and the cause; a server
// that fails otherwise after one does not.
func TestConnectRefused(t *testing.T) {
	for _, c := range carriers[2:] {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError} {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(c.legacy)
				f.refuse = func(w http.ResponseWriter, _ *http.Request, _ *jsonrpc.Request) bool {
					http.Error(w, "no bearer token", status)
					return true
				}
				_, err := Connect(t.Context(), f.transport(t, c), Options{})
				if err == nil {
					t.Fatal("connected")
				}
				var se *StatusError
				plain := fmt.Sprintf("client: connecting: the server refused the credentials: HTTP status %d %s: no bearer token", status, http.StatusText(status))
				if status == http.StatusInternalServerError {
					if errors.As(err, &se) || strings.Contains(err.Error(), "credentials") {
						t.Errorf("%v", err)
					}
				} else if err.Error() != plain || !errors.As(err, &se) || se.Status != status {
					t.Errorf("got %v, want %s", err, plain)
				} else if cause := new(reasonError); !errors.As(err, &cause) || !strings.Contains(cause.errs[1].Error(), http.StatusText(status)) {
					t.Errorf("the SDK's error is lost: %v", err)
				}
			})
		}
	}
}
