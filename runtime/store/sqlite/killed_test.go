package sqlite_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/killtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// walFrame returns the size of a frame in a write-ahead log: a header of 24 bytes and a page, whose size is in the
// log's header.
func walFrame(wal []byte) int { return 24 + int(binary.BigEndian.Uint32(wal[8:])) }

// kill runs a call and returns a store of the files as they were after the given number of frames of the call: what a
// process leaves that is killed there.
func kill[S any](t *testing.T, writes int, c killtest.Call[S]) (left S, all bool) {
	t.Helper()
	read := func(path string) []byte { return check.Must(os.ReadFile(path))(t) }
	path := filepath.Join(t.TempDir(), "events.db")
	victim := any(open(t, path, sqlite.Options{})).(S)
	if err := c.Prepare(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	db, before := read(path), read(path+"-wal")
	if err := c.Do(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	wal := read(path + "-wal")
	if string(read(path)) != string(db) || len(wal) <= len(before) || string(wal[:len(before)]) != string(before) {
		t.Fatal("the call has not only appended to the write-ahead log")
	}
	size := len(before) + writes*walFrame(wal)
	path = filepath.Join(t.TempDir(), "events.db")
	for name, b := range map[string][]byte{path: db, path + "-wal": wal[:min(size, len(wal))]} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return any(open(t, path, sqlite.Options{})).(S), size >= len(wal)
}

// CLI-6: a process killed between two writes of TakeReceived has taken all bodies or none.
func TestCLI6TakeReceivedKilled(t *testing.T) {
	killtest.BetweenWrites(t, killtest.TakeReceived(), kill)
}

// schedulesState describes the queues of the schedules a and b, their records and the cursor of the source.
func schedulesState(ctx context.Context, s engine.Schedules) (string, error) {
	text := ""
	for _, id := range []string{"a", "b"} {
		queue, err := s.Queue(ctx, id, 0, 100)
		if err != nil {
			return "", err
		}
		for _, q := range queue {
			text += fmt.Sprintf("%s:%s ", id, q.Body)
		}
	}
	all, err := s.Schedules(ctx, "", 10)
	if err != nil {
		return "", err
	}
	for _, v := range all {
		text += fmt.Sprintf("%s=%s ", v.ID, v.Record)
	}
	cursor, ok, err := s.IntakeCursor(ctx, "src")
	return fmt.Sprint(text, ok, cursor), err
}

// intake queues the occurrences after the cursor of the source: it does nothing if they are queued already.
func intake(ctx context.Context, s engine.Schedules) error {
	if cursor, _, err := s.IntakeCursor(ctx, "src"); err != nil || cursor == "7" {
		return err
	}
	_, err := s.Intake(ctx, engine.Intake{Source: "src", Cursor: "7", Limit: 2, Items: []engine.Queued{
		{Schedule: "a", Body: json.RawMessage("1")}, {Schedule: "b", Body: json.RawMessage("1")}, {Schedule: "a", Body: json.RawMessage("2")},
		{Schedule: "a", Body: json.RawMessage("3")},
	}})
	return err
}

// MCPE-DEL-6: a process killed between two writes of Intake has queued all occurrences and set the cursor, or nothing; a
// process killed between two writes of Settle has stored the schedule and deleted what is settled, or nothing.
func TestMCPEDEL6IntakeAndSettleKilled(t *testing.T) {
	putSchedules := func(ctx context.Context, s engine.Schedules) error {
		for _, id := range []string{"a", "b"} {
			if err := s.PutSchedule(ctx, engine.Schedule{ID: id, Record: json.RawMessage(`{}`)}); err != nil {
				return err
			}
		}
		return nil
	}
	killtest.BetweenWrites(t, killtest.Call[engine.Schedules]{Prepare: putSchedules, Do: intake, State: schedulesState}, kill)
	killtest.BetweenWrites(t, killtest.Call[engine.Schedules]{
		Prepare: func(ctx context.Context, s engine.Schedules) error {
			if err := putSchedules(ctx, s); err != nil {
				return err
			}
			return intake(ctx, s)
		},
		Do: func(ctx context.Context, s engine.Schedules) error {
			return s.Settle(ctx, engine.Schedule{ID: "a", Record: json.RawMessage(`{"n":1}`)}, 3)
		},
		State: schedulesState,
	}, kill)
}
