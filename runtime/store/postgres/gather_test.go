package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// waiting returns a committer and a log with n waiting appends that do not start the committer's goroutine.
func waiting(t *testing.T, n int) (*committer, *Log) {
	t.Helper()
	q, l := newCommitter(nil), &Log{}
	q.running = true
	for range n {
		if err := q.add(l, &appendCall{}); err != nil {
			t.Fatal(err)
		}
	}
	return q, l
}

func TestGather(t *testing.T) {
	const took = 3 * time.Millisecond
	for _, c := range []struct {
		name              string
		waiting, last     int
		took              time.Duration
		comes, want       time.Duration // when the next one arrives, 0 for never; when gather returns
		closed, withdrawn bool
	}{
		{name: "who is alone does not wait", last: 1, took: took},
		{name: "it waits for a part of what the last one took", last: 3, took: took, want: time.Millisecond},
		{name: "it never waits for long", last: 3, took: time.Second, want: maxGather},
		{name: "it ends when they are there", last: 1, waiting: 1, took: took, comes: 300 * time.Microsecond, want: 300 * time.Microsecond},
		{name: "fewer than came before are not enough", last: 2, waiting: 1, took: took, comes: 300 * time.Microsecond, want: time.Millisecond},
		{name: "who has withdrawn is missed", last: 1, waiting: 1, withdrawn: true, took: took, comes: 300 * time.Microsecond, want: time.Millisecond},
		{name: "who closes is not kept", last: 3, took: took, closed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, l := waiting(t, c.waiting)
				q.closed = c.closed
				if c.comes > 0 {
					go func() {
						time.Sleep(c.comes / 2) // gather waits
						if c.withdrawn {
							q.withdraw(l, l.queue[0])
						}
						time.Sleep(c.comes / 2)
						if err := q.add(l, &appendCall{}); err != nil {
							t.Error(err)
						}
					}()
				}
				begin := time.Now()
				q.gather(c.last, c.took)
				if got := time.Since(begin); got != c.want {
					t.Errorf("gather returned after %v, want %v", got, c.want)
				}
				if q.expected != 0 || len(q.gathered) != 0 {
					t.Errorf("%d are still expected, %d signals are left", q.expected, len(q.gathered))
				}
				synctest.Wait()
				time.Sleep(time.Second) // gather does not wait for later ones
			})
		})
	}
}
