package behaviour

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sources "github.com/mcpe-gen/mcpe-gen/golden/sources/want"
	"github.com/mcpe-gen/mcpe-gen/golden/sources/want/sourcesserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

type mailbox struct{}

func (mailbox) CheckMailReceived(context.Context, sources.MailReceivedArguments, string) (events.Page[sources.MailReceivedPayload], error) {
	return events.Page[sources.MailReceivedPayload]{Cursor: "now"}, nil
}

// SRV-1: a checker that was forgotten is an error of registration, not a panic.
func TestNilChecker(t *testing.T) {
	s, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	if err := sourcesserver.RegisterMailReceived(s, nil, sourcesserver.MailReceivedHooks{}); err == nil || !strings.Contains(err.Error(), `registering event "mail.received": the check is nil`) {
		t.Errorf("check: %v", err)
	}
	if e, err := sourcesserver.RegisterMailMoved(s, nil, sourcesserver.MailMovedHooks{}); e != nil || err == nil || !strings.Contains(err.Error(), "the check is nil") {
		t.Errorf("both: %v", err)
	}
	if err := sourcesserver.RegisterMailReceived(s, sourcesserver.MailReceivedYield(nil), sourcesserver.MailReceivedHooks{}); err == nil || !strings.Contains(err.Error(), "the check is nil") {
		t.Errorf("a function: %v", err)
	}
	if err := sourcesserver.RegisterMailReceived(s, mailbox{}, sourcesserver.MailReceivedHooks{}); err != nil {
		t.Error(err)
	}
}

// SRV-1: the generated type of a function that yields is a checker.
func TestYieldIsAChecker(t *testing.T) {
	type found = events.Found[sources.MailReceivedPayload]
	var c sourcesserver.MailReceivedChecker = sourcesserver.MailReceivedYield(func(_ context.Context, _ sources.MailReceivedArguments, cursor string) iter.Seq2[found, error] {
		return func(yield func(found, error) bool) {
			if yield(found{Item: &events.Item[sources.MailReceivedPayload]{ID: "m"}, Cursor: cursor + "1"}, nil) {
				yield(found{Cursor: cursor + "2"}, nil)
			}
		}
	})
	p, err := c.CheckMailReceived(t.Context(), sources.MailReceivedArguments{}, "c")
	if err != nil || len(p.Items) != 1 || p.Items[0].ID != "m" || p.Items[0].Cursor != "c1" || p.Cursor != "c2" || p.HasMore {
		t.Errorf("%+v, %v", p, err)
	}
}
