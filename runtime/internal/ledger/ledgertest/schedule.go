package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
)

var scheduleTests = []test{
	{"MCPE-DEL-6: the ledger is a store of schedules", testSchedules},
	{"MCPE-DEL-6: so it is if answers are lost", testScheduleAnswers},
	{"REP-7: only the holder of the shard changes schedules", testScheduleFence},
	{"MCPE-DEL-2: queues keep their order in records of several occurrences", testChunks},
	{"MCPE-DEL-6: schedules and occurrences are bounded", testScheduleBounds},
	{"CLI-5, CON-4, MCPE-DEL-6: a crash at any call loses and repeats nothing", testClientCrash},
	{"A schedule that cannot be read does not hold up others", testScheduleDamage},
}

// schedules claims the shard and returns the schedules.
func (p *process) schedules(t *testing.T) *ledger.Schedules {
	t.Helper()
	return p.Schedules(ok(p.claim(t.Context()))(t))
}

func testSchedules(t *testing.T, c Config) {
	enginetest.TestSchedules(t, func(t *testing.T) domain.Schedules { return c.world(t).process(t).schedules(t) })
}

func testScheduleAnswers(t *testing.T, c Config) {
	unanswered(t, c, func(t *testing.T, start func(t *testing.T) *process) {
		enginetest.TestSchedules(t, func(t *testing.T) domain.Schedules { return start(t).schedules(t) })
	})
}

func items(id string, bodies ...string) (all []domain.Queued) {
	for _, b := range bodies {
		all = append(all, domain.Queued{Schedule: id, Body: json.RawMessage(b)})
	}
	return all
}

// queued returns the bodies of a queue, read limit at a time.
func queued(t *testing.T, s *ledger.Schedules, id string, limit int) (bodies []string) {
	t.Helper()
	for after := uint64(0); ; {
		page := ok(s.Queue(t.Context(), id, after, limit))(t)
		if len(page) == 0 {
			return bodies
		}
		for _, q := range page {
			bodies, after = append(bodies, string(q.Body)), q.Sequence
		}
	}
}

func testScheduleFence(t *testing.T, c Config) {
	ctx := t.Context()
	w := c.world(t)
	old := w.process(t).schedules(t)
	must(t, old.PutSchedule(ctx, domain.Schedule{ID: "a"}))
	ok(old.Intake(ctx, domain.Intake{Source: "s", Cursor: "1", Items: items("a", "1", "2")}))(t)
	now := w.process(t).schedules(t)
	is(t, old.PutSchedule(ctx, domain.Schedule{ID: "b"}), ledger.ErrFenced)
	_, err := old.Intake(ctx, domain.Intake{Source: "s", Cursor: "2", Items: items("a", "3")})
	is(t, err, ledger.ErrFenced)
	is(t, old.Settle(ctx, domain.Schedule{ID: "a"}, 1), ledger.ErrFenced)
	is(t, old.DeleteSchedule(ctx, "a"), ledger.ErrFenced)
	is(t, old.ForgetIntake(ctx, "s"), ledger.ErrFenced)
	if got := queued(t, now, "a", 9); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("queued are %q", got)
	}
	if cursor, _, err := now.IntakeCursor(ctx, "s"); cursor != "1" || err != nil {
		t.Errorf("%q, %v", cursor, err)
	}
}

func testChunks(t *testing.T, c Config) {
	ctx := t.Context()
	w := c.world(t)
	s := w.process(t).schedules(t)
	must(t, s.PutSchedule(ctx, domain.Schedule{ID: "a"}))
	var want []string
	intake := func(bodies ...string) {
		t.Helper()
		want = append(want, bodies...)
		ok(s.Intake(ctx, domain.Intake{Items: items("a", bodies...)}))(t)
	}
	check := func(records int) {
		t.Helper()
		for _, limit := range []int{1, 3, 1000} {
			if got := queued(t, s, "a", limit); !slices.Equal(got, want) {
				t.Errorf("limit %d: %d are queued, want %d", limit, len(got), len(want))
			}
		}
		if n := ok(s.CountQueued(ctx, "a"))(t); n != len(want) {
			t.Errorf("the count is %d, want %d", n, len(want))
		}
		if got := len(w.keys(t, "que/")); got != records {
			t.Errorf("%d records, want %d", got, records)
		}
	}
	settle := func(n int) {
		t.Helper()
		page := ok(s.Queue(ctx, "a", 0, n))(t)
		must(t, s.Settle(ctx, domain.Schedule{ID: "a"}, page[n-1].Sequence))
		want = want[n:]
	}
	var small []string
	for i := range 50 {
		small = append(small, fmt.Sprint(i))
	}
	intake(small...)
	check(1)
	large := strings.Repeat("x", 40<<10)
	intake("s", large+"1", large+"2", large+"3", "t")
	check(1 + 3)
	settle(20)
	check(1 + 3)
	settle(30)
	check(3)
	settle(2)
	check(2)
	dropped := ok(s.Intake(ctx, domain.Intake{Items: items("a", small...), Limit: 10}))(t)
	want = small[40:]
	if dropped["a"] != 3+40 {
		t.Errorf("%v were dropped", dropped)
	}
	check(1)
	must(t, s.DeleteSchedule(ctx, "a"))
	if left := append(w.keys(t, "que/"), w.keys(t, "sch/")...); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

func testScheduleBounds(t *testing.T, c Config) {
	ctx := t.Context()
	s := c.world(t).process(t).schedules(t)
	for _, id := range []string{"", strings.Repeat("i", 151)} {
		is(t, s.PutSchedule(ctx, domain.Schedule{ID: id}), ledger.ErrName)
		is(t, s.Settle(ctx, domain.Schedule{ID: id}, 1), ledger.ErrName)
		must(t, s.DeleteSchedule(ctx, id))
		ok(s.Intake(ctx, domain.Intake{Items: items(id, "1")}))(t)
		if n := ok(s.CountQueued(ctx, id))(t); n != 0 {
			t.Errorf("%d are queued", n)
		}
	}
	ids := []string{"\x00", "-", "a", "a/cron", "a0", "b", strings.Repeat("i", 150), "~", "\xff"}
	for _, id := range slices.Backward(ids) {
		must(t, s.PutSchedule(ctx, domain.Schedule{ID: id, Owner: "\xff"}))
	}
	for i, v := range ok(s.Schedules(ctx, "", 99))(t) {
		if v.ID != ids[i] || v.Owner != "\xff" {
			t.Errorf("%q in place %d", v.ID, i)
		}
	}
	large := string(bytes.Repeat([]byte("x"), store.MaxValue))
	is(t, s.PutSchedule(ctx, domain.Schedule{ID: "a", Record: []byte(large)}), ledger.ErrTooLarge)
	for _, in := range []domain.Intake{{Items: items("a", large)}, {Source: "s", Cursor: large}} {
		_, err := s.Intake(ctx, in)
		is(t, err, ledger.ErrTooLarge)
	}
	ok(s.Intake(ctx, domain.Intake{Items: items("a", large[:350<<10])}))(t)
	var many []domain.Queued
	for i := range 400 {
		many = append(many, items(fmt.Sprint(i), "1")...)
	}
	ok(s.Intake(ctx, domain.Intake{Source: "s", Items: many[:399]}))(t)
	_, err := s.Intake(ctx, domain.Intake{Source: "s", Items: many})
	is(t, err, ledger.ErrTooLarge)
}

// clientSteps are operations of a client and of MCPE. Each one can be repeated after a crash.
var clientSteps = []func(ctx context.Context, c *ledger.Client, s *ledger.Schedules) error{
	received("a"), received("b"), received("c"),
	func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		return c.TakeReceived(ctx, "k", 2, clientstore.Saved{Cursor: "2"})
	},
	buried("x"), buried("y"), buried("x"),
	func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		_, err := c.RetryDeadLetter(ctx, 1)
		return err
	},
	func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		_, err := c.DeleteDeadLetter(ctx, 2)
		return err
	},
	func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		return c.PutCallback(ctx, "k", clientstore.Callback{URL: "u"})
	},
	scheduled("q"), scheduled("r"),
	func(ctx context.Context, _ *ledger.Client, s *ledger.Schedules) error {
		if _, done, err := s.IntakeCursor(ctx, "src"); done || err != nil {
			return err
		}
		_, err := s.Intake(ctx, domain.Intake{Source: "src", Cursor: "7", Items: slices.Concat(items("q", "1", "2", "3"), items("r", "4"))})
		return err
	},
	func(ctx context.Context, _ *ledger.Client, s *ledger.Schedules) error {
		return s.Settle(ctx, domain.Schedule{ID: "q"}, 2)
	},
	func(ctx context.Context, _ *ledger.Client, s *ledger.Schedules) error {
		return s.DeleteSchedule(ctx, "r")
	},
}

func received(id string) func(context.Context, *ledger.Client, *ledger.Schedules) error {
	return func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		_, err := c.PutReceived(ctx, "k", clientstore.Received{EventID: id, Body: []byte(id)})
		return err
	}
}

func buried(id string) func(context.Context, *ledger.Client, *ledger.Schedules) error {
	return func(ctx context.Context, c *ledger.Client, _ *ledger.Schedules) error {
		return c.PutDeadLetter(ctx, letter("k", id), 2)
	}
}

func scheduled(id string) func(context.Context, *ledger.Client, *ledger.Schedules) error {
	return func(ctx context.Context, _ *ledger.Client, s *ledger.Schedules) error {
		return s.PutSchedule(ctx, domain.Schedule{ID: id, Owner: "ann"})
	}
}

func testClientCrash(t *testing.T, c Config) {
	for _, crash := range []faults.Fault{faults.CrashBefore, faults.CrashAfter} {
		for call, crashed := 0, true; crashed && !t.Failed(); call++ {
			t.Run(fmt.Sprintf("crash %d at call %d", crash, call), func(t *testing.T) {
				w := c.world(t)
				n := -1
				p := w.faulty(t, faults.Plan{Before: func(faults.Call) faults.Fault {
					if n < 0 {
						return faults.None
					}
					if n++; n == call+1 {
						return crash
					}
					return faults.None
				}})
				s, done := p.schedules(t), 0
				n = 0
				crashed = false
				for client := p.Client(); done < len(clientSteps) && !crashed; {
					switch err := clientSteps[done](t.Context(), client, s); {
					case errors.Is(err, faults.ErrCrashed):
						crashed = true
					case err != nil:
						t.Fatal(err)
					default:
						done++
					}
				}
				crashed = crashed || n > call // a call whose failure is not reported
				next := w.process(t)
				s = next.schedules(t)
				for client := next.Client(); done < len(clientSteps); done++ {
					must(t, clientSteps[done](t.Context(), client, s))
				}
				checkClient(t, w, next.Client(), s)
			})
		}
	}
}

// checkClient checks the result of all steps.
func checkClient(t *testing.T, w *world, c *ledger.Client, s *ledger.Schedules) {
	t.Helper()
	ctx := t.Context()
	if got := ok(c.Received(ctx, "k", 0, 9))(t); len(got) != 1 || got[0].EventID != "c" || got[0].Sequence != 3 {
		t.Errorf("bodies %+v", got)
	}
	if got, _, err := c.Load(ctx, "k"); got.Cursor != "2" || err != nil {
		t.Errorf("cursor %+v, %v", got, err)
	}
	if got := ok(c.DueDeadLetters(ctx, "k", 0, 9))(t); len(got) != 1 || got[0].EventID != "x" || got[0].Sequence != 1 {
		t.Errorf("letters that are due: %+v", got)
	}
	must(t, c.PutDeadLetter(ctx, letter("k", "z"), 2))
	if got := ok(c.DeadLetters(ctx, 0, 9))(t); len(got) != 2 || got[1].EventID != "z" || got[1].Sequence != 3 {
		t.Errorf("letters: %+v", got)
	}
	if got := ok(s.Schedules(ctx, "", 9))(t); len(got) != 1 || got[0].ID != "q" {
		t.Errorf("schedules: %+v", got)
	}
	if got := queued(t, s, "q", 9); !slices.Equal(got, []string{"3"}) {
		t.Errorf("queued are %q", got)
	}
	if got := len(w.keys(t, "sch/")); got != 1 {
		t.Errorf("%d records of schedules", got)
	}
	// A schedule that was deleted begins with an empty queue.
	must(t, s.PutSchedule(ctx, domain.Schedule{ID: "r"}))
	ok(s.Intake(ctx, domain.Intake{Items: items("r", "9")}))(t)
	if got := queued(t, s, "r", 9); !slices.Equal(got, []string{"9"}) {
		t.Errorf("queued are %q", got)
	}
}

func testScheduleDamage(t *testing.T, c Config) {
	ctx := t.Context()
	w := c.world(t)
	s := w.process(t).schedules(t)
	for _, id := range []string{"a", "b"} {
		must(t, s.PutSchedule(ctx, domain.Schedule{ID: id}))
	}
	w.damage(t, w.keys(t, "sch/")[0])
	if got := ok(s.Schedules(ctx, "", 9))(t); len(got) != 1 || got[0].ID != "b" {
		t.Errorf("%+v", got)
	}
	in := domain.Intake{Source: "s", Cursor: "1", Items: slices.Concat(items("a", "1"), items("b", "2", "3"))}
	ok(s.Intake(ctx, in))(t)
	if got := queued(t, s, "b", 9); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("queued are %q", got)
	}
	w.damage(t, w.keys(t, "que/")[0])
	must(t, s.PutSchedule(ctx, domain.Schedule{ID: "a"}))
	ok(s.Intake(ctx, in))(t)
	if a, b := queued(t, s, "a", 9), queued(t, s, "b", 9); !slices.Equal(a, []string{"1"}) || !slices.Equal(b, []string{"2", "3"}) {
		t.Errorf("queued are %q and %q", a, b)
	}
	must(t, s.Settle(ctx, domain.Schedule{ID: "a"}, 9))
	w.damage(t, w.keys(t, "sch/")[0])
	must(t, s.DeleteSchedule(ctx, "a"))
	if got := w.keys(t, "sch/"); len(got) != 1 {
		t.Errorf("left are %q", got)
	}
}
