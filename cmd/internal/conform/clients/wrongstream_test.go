package clients

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func (w *wrongClient) push(ctx context.Context) error {
	for failures, first := 0, true; ctx.Err() == nil; first = false {
		if w.is("leaves-streams") && !first {
			<-ctx.Done()
		}
		err := w.stream(ctx)
		if errors.Is(err, io.EOF) {
			failures = 0
		}
		failures++
		if again, err := w.failed(ctx, err, failures); !again {
			return err
		}
	}
	return nil
}

// stream reads one stream, and says why it ended.
func (w *wrongClient) stream(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	if !w.is("leaves-dead-streams-open", "one-request-id") {
		defer cancel()
	}
	res, err := w.send(ctx, wire.MethodStream, w.following())
	if err != nil {
		cancel()
		return err
	}
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); kind != "text/event-stream" {
		defer res.Body.Close()
		defer cancel()
		var m struct {
			Error *rpcError `json:"error"`
		}
		if json.NewDecoder(res.Body).Decode(&m) != nil || m.Error == nil {
			return errBad
		}
		return m.Error
	}
	frames := make(chan string)
	go func() {
		defer res.Body.Close()
		defer close(frames)
		for in := w.newFrames(res.Body); ; {
			frame, ok := in.next()
			if !ok {
				return
			}
			select {
			case frames <- frame:
			case <-parent.Done():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		if parent.Err() != nil {
			cancel()
		}
	}()
	patience, beats, last, actives := time.Minute, 0, time.Now(), 0
	for {
		var dead <-chan time.Time
		if !w.is("trusts-silent-stream") {
			t := time.NewTimer(patience)
			defer t.Stop()
			dead = t.C
		}
		var data string
		var ok bool
		select {
		case data, ok = <-frames:
			if !ok {
				return io.EOF
			}
		case <-dead:
			return io.EOF
		case <-ctx.Done():
			return ctx.Err()
		}
		var m struct {
			Method string
			Params map[string]json.RawMessage
			Result json.RawMessage
			Error  *rpcError
		}
		if json.Unmarshal([]byte(data), &m) != nil {
			return errBad
		}
		switch m.Method {
		case wire.NotificationActive:
			if w.is("leaves-streams") {
				return io.EOF
			}
			if !w.is("ignores-cursor-active") && (actives == 0 || !w.is("ignores-cursors-of-gaps")) {
				w.at(m.Params["cursor"])
			}
			truncated := string(m.Params["truncated"]) == "true"
			if actives++; w.is("silent-on-malformed") && actives > 1 {
				return errBad
			}
			if truncated {
				w.gap()
				if actives > 1 && w.is("gaps-end-streams") {
					return io.EOF
				}
			}
		case wire.NotificationEvent:
			if !w.take(mustJSON(m.Params)) && w.is("reads-8-kib", "reads-64-kib") {
				return errBad
			}
		case wire.NotificationHeartbeat:
			if !w.is("ignores-cursors-of-heartbeats") {
				w.at(m.Params["cursor"])
			}
			if beats++; beats > 1 && !w.is("waits-minute") {
				patience = 2*time.Since(last) + time.Second
			}
			last = time.Now()
		case wire.NotificationError:
			if w.is("errors-end-streams") {
				return io.EOF
			}
		case wire.NotificationTerminated:
			var e rpcError
			_ = json.Unmarshal(m.Params["error"], &e)
			if e.Code == -32014 && !w.is("repeats-cursor-refused") {
				w.at(nil)
			}
			if e.Code == 0 {
				e.Code = -1
			}
			return &e
		case "":
			if m.Error != nil {
				return m.Error
			}
			return io.EOF
		}
	}
}

func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
