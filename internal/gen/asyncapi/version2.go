package asyncapi

import (
	"cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// readVersion2 reads the channels of a version 2 document. Version 2 names operations from the perspective of the
// client, so the application sends to channels with a subscribe operation.
func (r *reader) readVersion2(channels *source.Node) {
	operation := "publish"
	for _, m := range channels.Members {
		if m.Value.Get("subscribe") != nil {
			operation = "subscribe" // authors who mean the application's side write only publish
		}
	}
	for _, m := range channels.Members {
		channel, err := importer.Follow(r.doc, m.Value)
		if err != nil {
			r.leaveOut(m.KeyRange, "channel "+m.Key, err.Error())
			continue
		}
		op := channel.Get(operation)
		if op == nil {
			if channel.Get("publish") != nil {
				r.leaveOut(m.KeyRange, "channel "+m.Key, "the application only receives its messages")
			}
			continue
		}
		r.readOperation(m.Key, m.KeyRange, channel, op)
	}
}

// readOperation reads the message of an operation, or all messages in its oneOf.
func (r *reader) readOperation(id string, at source.Range, channel, op *source.Node) {
	one := op.Get("message")
	if one == nil {
		r.leaveOut(at, "channel "+id, "its operation has no message")
		return
	}
	all := []*source.Node{one}
	if list := one.Get("oneOf"); list != nil {
		all = list.Items
	}
	for _, n := range all {
		key := messageName(n, id)
		message, err := importer.Follow(r.doc, n)
		if err == nil {
			// The operation describes a message without a description.
			err = r.readMessage(id, withDescription(channel, op), key, message, false)
		}
		if err != nil {
			r.leaveOut(n.Range, "message "+key, err.Error())
		}
	}
}

// messageName returns the name of a message. Without a name, it returns the ID, the last segment of the reference, or
// the channel.
func messageName(n *source.Node, channel string) string {
	if id := cmp.Or(n.Word("name"), n.Word("messageId")); id != "" {
		return id
	}
	if ref := n.Get("$ref"); ref != nil {
		return schematree.LastToken(ref.Text)
	}
	return channel
}

// withDescription returns the channel, with the description of op if op has one.
func withDescription(channel, op *source.Node) *source.Node {
	if text := importer.Description([]string{"description", "summary"}, op); text != "" {
		return &source.Node{Kind: source.Object, Members: append([]source.Member{{Key: "description", Value: yaml.Text(text)}}, channel.Members...), Range: channel.Range}
	}
	return channel
}
