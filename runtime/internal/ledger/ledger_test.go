package ledger

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A scripted engine replaces calls of another one.
type scripted struct {
	engine.Engine
	commit func(ctx context.Context, c *store.Commit) ([]uint64, error)
	get    func(ctx context.Context, c store.Consistency, keys ...string) ([]store.Record, error)
}

func (s *scripted) Commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	if s.commit != nil {
		return s.commit(ctx, c)
	}
	return s.Engine.Commit(ctx, c)
}

func (s *scripted) Get(ctx context.Context, c store.Consistency, keys ...string) ([]store.Record, error) {
	if s.get != nil {
		return s.get(ctx, c, keys...)
	}
	return s.Engine.Get(ctx, c, keys...)
}

// An Encoded engine keeps the bytes of values, as a durable one does.
type Encoded struct{ engine.Engine }

func (e Encoded) Commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	sent := *c
	sent.Writes = slices.Clone(c.Writes)
	for i := range sent.Writes {
		if v := sent.Writes[i].Value; v != nil {
			sent.Writes[i].Value = store.Bytes(v.Bytes())
		}
	}
	return e.Engine.Commit(ctx, &sent)
}

func opened(t *testing.T, e engine.Engine, o Options) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, e engine.Engine, key string) store.Record {
	t.Helper()
	found, err := e.Get(t.Context(), store.Latest, key)
	must(t, err)
	return found[0]
}

// A commit whose answer was lost takes effect once, whether and whenever its first copy arrives.
func TestCommitSettles(t *testing.T) {
	type script func(s *scripted, n int, c *store.Commit) ([]uint64, error)
	lost := func(s *scripted, c *store.Commit) ([]uint64, error) {
		_, err := s.Engine.Commit(context.Background(), c)
		return nil, errors.Join(store.ErrUncertain, err)
	}
	for name, do := range map[string]script{
		"applied, answer lost": func(s *scripted, n int, c *store.Commit) ([]uint64, error) {
			if n > 1 {
				t.Error("the commit was sent again although it stands")
			}
			return lost(s, c)
		},
		"never arrived": func(s *scripted, n int, c *store.Commit) ([]uint64, error) {
			if n == 1 {
				return nil, store.ErrUncertain
			}
			return s.Engine.Commit(context.Background(), c)
		},
		"arrives just before its copy": func(s *scripted, n int, c *store.Commit) ([]uint64, error) {
			if n == 1 {
				return nil, store.ErrUncertain
			}
			if _, err := s.Engine.Commit(context.Background(), c); err != nil {
				t.Error(err)
			}
			return s.Engine.Commit(context.Background(), c)
		},
		"lost several times": func(s *scripted, n int, c *store.Commit) ([]uint64, error) {
			if n < 4 {
				return nil, store.ErrUncertain
			}
			return lost(s, c)
		},
		"unsent after it was lost": func(s *scripted, n int, c *store.Commit) ([]uint64, error) {
			switch n {
			case 1:
				return nil, store.ErrUncertain
			case 2:
				return nil, errors.New("not sent")
			}
			return s.Engine.Commit(context.Background(), c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n := &scripted{Engine: memory.New()}, 0
				l := opened(t, s, Options{})
				s.commit = func(_ context.Context, c *store.Commit) ([]uint64, error) {
					n++
					return do(s, n, c)
				}
				revisions, err := l.commit(t.Context(), &store.Commit{Writes: []store.Write{{Key: "a", Value: &count{1}}, {Key: "b", Value: &count{2}}}})
				must(t, err)
				a, b := get(t, s, "a"), get(t, s, "b")
				if !slices.Equal(revisions, []uint64{a.Revision, b.Revision}) || a.Value.(*count).Used != 1 {
					t.Errorf("revisions %v, stored %v and %v", revisions, a, b)
				}
			})
		})
	}
}

// A commit that can never be applied is a conflict, and one whose outcome cannot be found out is uncertain.
func TestCommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{Engine: memory.New()}
		l := opened(t, s, Options{})
		write := func() *store.Commit { return &store.Commit{Writes: []store.Write{{Key: "a", Value: &count{1}}}} }
		unsent := errors.New("not sent")
		s.commit = func(context.Context, *store.Commit) ([]uint64, error) { return nil, unsent }
		if _, err := l.commit(t.Context(), write()); !errors.Is(err, unsent) || errors.Is(err, store.ErrUncertain) {
			t.Errorf("an unsent commit: %v", err)
		}
		s.commit = func(ctx context.Context, c *store.Commit) ([]uint64, error) {
			s.commit = nil
			if _, err := s.Engine.Commit(ctx, &store.Commit{Call: 7, Writes: []store.Write{{Key: "a", Value: &count{5}}}}); err != nil {
				t.Error(err)
			}
			return nil, store.ErrUncertain // and the other one was first
		}
		if _, err := l.commit(t.Context(), write()); !errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUncertain) {
			t.Errorf("a commit that another one has overtaken: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.commit = func(context.Context, *store.Commit) ([]uint64, error) {
			cancel()
			return nil, store.ErrUncertain
		}
		if _, err := l.commit(ctx, &store.Commit{Writes: []store.Write{{Key: "b", Value: &count{1}}}}); !errors.Is(err, store.ErrUncertain) {
			t.Errorf("a context that has ended: %v", err)
		}
		down := errors.New("down")
		s.get = func(context.Context, store.Consistency, ...string) ([]store.Record, error) { return nil, down }
		if _, err := l.commit(t.Context(), &store.Commit{Writes: []store.Write{{Key: "b", Value: &count{1}}}}); !errors.Is(err, store.ErrUncertain) || !errors.Is(err, down) {
			t.Errorf("a store that cannot be read: %v", err)
		}
	})
}

// A step decides for good by the latest records, however old the first ones are.
func TestChangeReadsLatest(t *testing.T) {
	s := &scripted{Engine: memory.New()}
	l := opened(t, s, Options{})
	must(t, func() error {
		_, err := l.commit(t.Context(), &store.Commit{Writes: []store.Write{{Key: "a", Value: &count{1}}}})
		return err
	}())
	stale := 0
	s.get = func(ctx context.Context, c store.Consistency, keys ...string) ([]store.Record, error) {
		if c == store.Stale {
			stale++
			return make([]store.Record, len(keys)), nil // as if it had never been written
		}
		return s.Engine.Get(ctx, c, keys...)
	}
	old := func(r store.Record) store.Record { r.Key = "a"; return r }
	_, err := l.change(t.Context(), []string{"a"}, func(r reading) (*store.Commit, error) {
		n, err := decode[count](old(r[0]))
		if n == nil || err != nil {
			return nil, err // final if it is the latest
		}
		return &store.Commit{Writes: []store.Write{{Key: "a", On: r[0].Revision, Value: &count{n.Used + 1}}}}, nil
	})
	must(t, err)
	if n := get(t, s.Engine, "a").Value.(*count); n.Used != 2 || stale != 1 {
		t.Errorf("%d after %d stale reads", n.Used, stale)
	}
	// So does a step that another process has overtaken.
	reads := []store.Consistency{}
	s.get = func(ctx context.Context, c store.Consistency, keys ...string) ([]store.Record, error) {
		reads = append(reads, c)
		found, err := s.Engine.Get(ctx, c, keys...)
		if len(reads) == 1 {
			found[0].Revision++
		}
		return found, err
	}
	_, err = l.change(t.Context(), []string{"a"}, func(r reading) (*store.Commit, error) {
		return &store.Commit{Writes: []store.Write{r.write("a", &count{9})}}, nil
	})
	if must(t, err); !slices.Equal(reads, []store.Consistency{store.Stale, store.Latest}) {
		t.Errorf("reads %v", reads)
	}
	// A guard that has moved is not for change to repair.
	s.get = nil
	_, err = l.change(t.Context(), []string{"a"}, func(r reading) (*store.Commit, error) {
		return &store.Commit{Guards: []store.Guard{{Key: "b", Revision: 9}}, Writes: []store.Write{r.write("a", nil)}}, nil
	})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Keys, []string{"b"}) {
		t.Errorf("a guard that has moved: %v", err)
	}
}

// A record that cannot be decoded is reported, and those after it are read.
func TestEachPassesOver(t *testing.T) {
	e := memory.New()
	var log strings.Builder
	l := opened(t, e, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := &store.Commit{Writes: []store.Write{{Key: "x/a", Value: &count{1}}, {Key: "x/b", Value: store.Bytes("{")},
		{Key: "x/c", Value: store.Bytes(`{"form":99,"value":{}}`)}, {Key: "x/d", Value: store.Bytes(`{"form":1,"value":{"used":4}}`)}}}
	if _, err := l.commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	read := map[string]int{}
	must(t, l.each(t.Context(), "x/", func(r store.Record) error {
		n, err := decode[count](r)
		if err == nil {
			read[r.Key] = n.Used
		}
		return err
	}))
	if !maps.Equal(read, map[string]int{"x/a": 1, "x/d": 4}) || !strings.Contains(log.String(), "x/b") || !strings.Contains(log.String(), "x/c") {
		t.Errorf("read %v, logged %s", read, log.String())
	}
	down := errors.New("down")
	if err := l.each(t.Context(), "x/", func(store.Record) error { return down }); !errors.Is(err, down) {
		t.Errorf("another error: %v", err)
	}
}
