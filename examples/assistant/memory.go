package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/runtime/conversation"
)

// notes contains the assistant's knowledge about services, independent of incidents.
var notes = []struct{ service, text string }{
	{"checkout", "The checkout service belongs to team Payments; its runbook starts with the payment gateway's status page."},
	{"search", "The search service belongs to team Discovery; a reindex takes 40 minutes."},
}

// maxMemories is the maximum number of memories in an answer. The most relevant memories are selected.
const maxMemories = 10

// remember returns the desk's knowledge about a user's message: the notes on services and the incidents that share
// words with the message. It does not store the message.
func (d *desk) remember(_ context.Context, m conversation.Message) (a conversation.Answer[conversation.Memories], err error) {
	said := words(m.Content)
	var found []conversation.Memory
	for _, n := range notes {
		if slices.Contains(said, n.service) {
			found = append(found, conversation.Memory{Content: n.text, Relevance: 0.7, Source: "notes"})
		}
	}
	for _, i := range slices.Backward(d.list("")) {
		if r := relevance(said, i); r > 0 {
			state := "is open"
			if i.over {
				state = "is resolved"
			}
			found = append(found, conversation.Memory{
				Content: fmt.Sprintf("%s (%s, %s) %s: %s", i.IncidentID, i.Severity, i.Service, state, i.Title), Relevance: r, Source: "incidents",
			})
		}
	}
	if len(found) == 0 {
		return a, nil
	}
	slices.SortStableFunc(found, func(x, y conversation.Memory) int { return int(100 * (y.Relevance - x.Relevance)) })
	return conversation.Answer[conversation.Memories]{Structured: &conversation.Memories{Memories: found[:min(len(found), maxMemories)]}}, nil
}

// relevance returns the relevance of an incident to a message, or 0 if it is not relevant.
func relevance(said []string, i incident) float64 {
	r := 0.0
	switch about := words(i.IncidentID + " " + i.Title); {
	case slices.Contains(said, strings.ToLower(i.Service)):
		r = 0.9
	case slices.ContainsFunc(said, func(w string) bool { return len(w) > 3 && slices.Contains(about, w) }):
		r = 0.8
	case slices.Contains(said, "incident") || slices.Contains(said, "incidents"):
		r = 0.6
	}
	if i.over {
		r /= 2
	}
	return r
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
