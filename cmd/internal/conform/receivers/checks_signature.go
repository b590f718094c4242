package receivers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/draw"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

var signatureChecks = []check{
	{name: "signed", id: "CLI-5", title: "The receiver accepts an event with a valid signature", run: sendFirst},
	{name: "signature-bytes", id: "CLI-5", title: "The signature covers the received bytes", run: accepts(bodies(jsonForms...))},
	{name: "signature-wrong", id: "CLI-5", title: "The receiver refuses an event with a missing or malformed signature",
		run: refuses(headers(wire.HeaderWebhookSignature, "", "v1,", "v1", ",", "v1,AAAA", "v1,undefined", "v1,"+strings.Repeat("A", 43)+"=", "v1,*"))},
	{name: "signature-other-secret", id: "CLI-5", title: "The receiver refuses an event that another secret signs",
		run: refuses(signedBy(otherKey(), []byte{}, make([]byte, 32)))},
	{name: "signature-part", id: "CLI-5", title: "The receiver refuses an event with a changed or truncated signature",
		run: refuses(macs("v1", truncated(1), truncated(16), truncated(31), extended, flipped, flipped, flipped))},
	{name: "signature-scheme", id: "HOOK-10", title: "The receiver refuses an event with its signature only under another scheme",
		run: refuses(macs("v9", unchanged), macs("v1a", unchanged), macs("v10", unchanged), macs("v", unchanged), macs("", unchanged))},
	{name: "body-changed", id: "CLI-5", title: "The receiver refuses an event with a changed body", run: refuses(changedBodies(bodyChanges...))},
	{name: "signature-headers", id: "CLI-5", title: "The signature covers the webhook-id and the timestamp",
		run: refuses(headers(wire.HeaderWebhookID, "msg_other"), these(olderHeader))},
	{name: "signature-several", id: "SUB-5", title: "One valid signature of several is enough, in any position", run: accepts(among("v1"))},
	{name: "signature-unknown-scheme", id: "HOOK-10", title: "The receiver ignores signatures of unknown schemes", run: accepts(among("v1a", "v9", "v2", "ed25519"))},
	{name: "header-case", id: "HOOK-2", title: "The receiver accepts header names in any case", run: accepts(spelled(strings.ToUpper, strings.ToLower, mixCase))},
	{name: "timestamp-recent", id: "CLI-5", title: "The receiver accepts an event whose timestamp is less than five minutes away",
		run: accepts(at(-290, -290), at(-1, 2), at(1, 1), at(290, 290), at(-290, 290), at(-290, 290))},
	{name: "timestamp-old", id: "CLI-5", title: "The receiver refuses an event that is more than five minutes old",
		run: refuses(at(-310, -310), at(-3600, -310), at(-1_000_000, -3600))},
	{name: "timestamp-ahead", id: "CLI-5", title: "The receiver refuses an event that is more than five minutes ahead", advice: true,
		run: refuses(at(310, 310), at(310, 3600), at(3600, 1_000_000))},
	{name: "timestamp-malformed", id: "HOOK-2", title: "The receiver refuses a timestamp that is not a number of seconds",
		run: refuses(stamps("", "now", "-"))},
}

// sendFirst sends the first events. Later checks repeat them.
func sendFirst(ctx context.Context, r *run) error {
	for range 2 {
		e := r.newEvent(nil)
		x, err := r.expectAccepted(ctx, e)
		if err != nil {
			return err
		}
		r.early = append(r.early, e)
		r.atLeast(e.id, x)
	}
	return nil
}

// A bytesChange returns changed bytes. It may change its argument.
type bytesChange func([]byte) []byte

// jsonForms change the form of a JSON object but not its value. A receiver that encodes the body again before it
// verifies the signature gets other bytes.
var jsonForms = []bytesChange{
	replaced(`{"`, "{ \t\r\n \""),
	replaced(`","`, "\",\n  \""),
	replaced(`":"`, `" : "`),
	replaced(`:"evt_`, `:"\u0065vt_`),
	func(body []byte) []byte { return slices.Concat([]byte(" \n"), body, []byte("\r\n")) },
	replaced(`{"`, `{"_meta":{"z":1.0,"a":1e2,"m":"\/é\u00e9","n":12345678901234567890},"`),
}

// bodyChanges change the bytes of a signed body. Some do not change the JSON value.
var bodyChanges = []bytesChange{
	func(body []byte) []byte { return append(body, ' ') },
	func(body []byte) []byte { return slices.Insert(body, 0, '\n') },
	replaced(`":`, `": `),
	replaced("conform-evt", "conform-evu"),
	replaced(`{"`, `{"_meta":{},"`),
}

// replaced returns a change that replaces the first old text.
func replaced(old, text string) bytesChange {
	return func(body []byte) []byte { return bytes.Replace(body, []byte(old), []byte(text), 1) }
}

// fixed returns a change to the text.
func fixed(text string) bytesChange { return func([]byte) []byte { return []byte(text) } }

// bodies returns events whose signed bodies are changed.
func bodies(changes ...bytesChange) class {
	return of(changes, func(r *run, e message, change bytesChange) message {
		return r.repeat(e, e.id, change(bytes.Clone(e.body)))
	})
}

// changedBodies returns events whose bodies are changed after they are signed.
func changedBodies(changes ...bytesChange) class {
	return of(changes, func(_ *run, e message, change bytesChange) message {
		e.body = change(bytes.Clone(e.body))
		return e
	})
}

// headers returns events with values of a header that their signatures do not cover.
func headers(name string, values ...string) class {
	return of(values, func(_ *run, e message, value string) message { return e.with(name, value) })
}

func signedBy(keys ...[]byte) class {
	return of(keys, func(_ *run, e message, key []byte) message { return e.sign(key) })
}

// macs returns events whose HMAC is changed, with the name of a scheme.
func macs(scheme string, changes ...func(*draw.Source, []byte) []byte) class {
	return of(changes, func(r *run, e message, change func(*draw.Source, []byte) []byte) message {
		return e.with(wire.HeaderWebhookSignature, scheme+","+base64.StdEncoding.EncodeToString(change(r.draw, e.mac())))
	})
}

// truncated returns a change to the first bytes of an HMAC. A receiver that compares only as many bytes as the signature
// has accepts one in 256 signatures of a single byte.
func truncated(size int) func(*draw.Source, []byte) []byte {
	return func(_ *draw.Source, mac []byte) []byte { return mac[:size] }
}

func unchanged(_ *draw.Source, mac []byte) []byte { return mac }
func extended(_ *draw.Source, mac []byte) []byte  { return append(mac, 0) }

// flipped changes a drawn bit.
func flipped(s *draw.Source, mac []byte) []byte {
	mac[s.IntN(len(mac))] ^= 1 << s.IntN(8)
	return mac
}

// olderHeader returns the event with an older timestamp than the signed one.
func olderHeader(r *run, e message) message {
	at := time.Now().Add(-time.Duration(1+r.draw.IntN(200)) * time.Second)
	return e.with(wire.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
}

// among returns events whose signature is the first, the second and the last of up to five signatures. The others are
// wrong and have the given schemes.
func among(schemes ...string) class {
	return of([]int{0, 1, 2}, func(r *run, e message, position int) message {
		list := make([]string, 2+r.draw.IntN(3))
		for i := range list {
			other := draw.Pick(r.draw, [][]byte{make([]byte, 3), otherKey(), make([]byte, 64)})
			list[i] = draw.Pick(r.draw, schemes) + "," + base64.StdEncoding.EncodeToString(other)
		}
		at := []int{0, 1, len(list)}[position]
		return e.with(wire.HeaderWebhookSignature, strings.Join(slices.Insert(list, at, e.header[wire.HeaderWebhookSignature]), " "))
	})
}

// spelled returns events with changed names of headers.
func spelled(changes ...func(string) string) class {
	return of(changes, func(_ *run, e message, change func(string) string) message {
		e.spell = change
		return e
	})
}

func mixCase(name string) string {
	return strings.ToUpper(name[:len(name)/2]) + strings.ToLower(name[len(name)/2:])
}

// at returns an event that is signed at a drawn time, in seconds from the present.
func at(least, most int) class {
	return these(func(r *run, e message) message {
		seconds := least + r.draw.IntN(most-least+1)
		return e.with(wire.HeaderWebhookTimestamp, strconv.FormatInt(time.Now().Unix()+int64(seconds), 10)).sign(r.key)
	})
}

// stamps returns events that are signed with other texts as their timestamps.
func stamps(texts ...string) class {
	return of(texts, func(r *run, e message, text string) message {
		return e.with(wire.HeaderWebhookTimestamp, text).sign(r.key)
	})
}

func otherKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}
