package topic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// variantBed is a topic with one entry, whose Transform is transform, and readers of it with equal arguments.
func variantBed(t *testing.T, transform func(ctx context.Context, p *incident) error) (read func(context.Context) (string, error)) {
	typ := newType(t)
	typ.Transform = func(ctx context.Context, p, _ any) error { return transform(ctx, p.(*incident)) }
	topic := open(t, typ, nil, store.LogOptions{})
	add(t, topic, incident{ID: "x"})
	a := parse(t, typ, `{"level":1}`)
	return func(ctx context.Context) (string, error) {
		r := topic.Reader(a, "sub", nil, 0)
		p, err := r.Next(ctx, nil, Batch(1))
		if err != nil {
			return "", err
		}
		if err := p.Out[0].Err(); err != nil {
			return "", err
		}
		return string(p.Out[0].Data()), nil
	}
}

// OCC-4: readers with equal arguments share one Transform. While it hangs, each of them leaves when its
// own context ends; when the one that runs it goes away, another one runs it, once for all that are left.
func TestHangingTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		read := variantBed(t, func(ctx context.Context, p *incident) error {
			if runs++; runs == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			p.Text = fmt.Sprint("run ", runs)
			return nil
		})
		first, leave := context.WithCancel(t.Context())
		started := time.Now()
		ends := make(chan string, 10)
		go func() {
			_, err := read(first)
			ends <- fmt.Sprint("first after ", time.Since(started), ": ", err)
		}()
		synctest.Wait()
		go func() {
			hurried, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := read(hurried)
			ends <- fmt.Sprint("hurried after ", time.Since(started), ": ", err)
		}()
		for range 3 {
			go func() {
				data, err := read(t.Context())
				ends <- fmt.Sprint(data, " ", err)
			}()
		}
		time.Sleep(time.Hour)
		if got, want := <-ends, "hurried after 1s: context deadline exceeded"; got != want {
			t.Errorf("%s; want %s", got, want)
		}
		leave()
		var got []string
		for range 4 {
			got = append(got, <-ends)
		}
		all := strings.Join(got, "\n")
		if strings.Count(all, `{"id":"x","text":"run 2"} <nil>`) != 3 || !strings.Contains(all, "first after 1h0m0s: context canceled") {
			t.Error(all)
		}
		if runs != 2 {
			t.Errorf("Transform ran %d times", runs)
		}
	})
}

// A Transform that panics keeps nobody waiting.
func TestPanickingTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		runs := 0
		read := variantBed(t, func(context.Context, *incident) error {
			if runs++; runs == 1 {
				<-release
				panic("of the author")
			}
			return errors.New("refused")
		})
		go func() {
			defer func() { recover() }()
			_, err := read(t.Context())
			t.Error("no panic: ", err)
		}()
		synctest.Wait()
		go close(release)
		if _, err := read(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "refused") {
			t.Error(err)
		}
		if _, err := read(t.Context()); err == nil || runs != 2 {
			t.Errorf("%v after %d runs: what Transform refuses is remembered", err, runs)
		}
	})
}

// OCC-6: PerPrincipal is asked for each reading of each reader and works on Transform's result, of which nobody else
// sees a change, whether it gets a copy or a decoded payload; an entry that it withholds is passed over like one that
// does not match.
func TestPerPrincipal(t *testing.T) {
	for _, copyable := range []bool{true, false} {
		t.Run(fmt.Sprintf("copyable %v", copyable), func(t *testing.T) { testPerPrincipal(t, copyable) })
	}
}

func testPerPrincipal(t *testing.T, copyable bool) {
	typ := newType(t)
	typ.Copyable = copyable
	transformed := 0
	typ.Transform = func(_ context.Context, p, _ any) error {
		transformed++
		p.(*incident).Text = "t"
		return nil
	}
	type who struct{}
	typ.PerPrincipal = func(ctx context.Context, p, _ any) (any, error) {
		i, name := p.(*incident), ctx.Value(who{}).(string)
		if i.Text += name; name == i.ID {
			return nil, nil
		}
		return i, nil
	}
	topic := open(t, typ, nil, store.LogOptions{})
	for _, id := range []string{"ann", "bob"} {
		add(t, topic, incident{ID: id})
	}
	a := parse(t, typ, `{"level":1}`)
	for _, name := range []string{"ann", "bob", "cid", "cid"} {
		r := topic.Reader(a, "sub", nil, 0)
		p, err := r.Next(context.WithValue(t.Context(), who{}, name), nil, Batch(9))
		if err != nil || p.More || r.Position() != 2 {
			t.Fatalf("%s is at %d: %+v, %v", name, r.Position(), p, err)
		}
		var got []string
		for _, o := range p.Out {
			got = append(got, string(o.Data()))
		}
		var want []string
		for _, id := range []string{"ann", "bob"} {
			if id != name {
				want = append(want, fmt.Sprintf(`{"id":%q,"text":"t%s"}`, id, name))
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s reads %q, want %q", name, got, want)
		}
	}
	if transformed != 2 {
		t.Errorf("Transform ran %d times", transformed)
	}
}
