package ledgertest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A stored is a subscription or verification as the audit reads it.
type stored struct {
	ID         string
	Generation uint64
	Shard      struct {
		Topic  string
		Number int
	}
	Ended   json.RawMessage
	Counted [2]int
	Used    int
}

// all returns the values of all records as JSON, by key.
func (w *world) all(t *testing.T) map[string]stored {
	t.Helper()
	all := map[string]stored{}
	for after := ""; ; {
		page, err := w.raw.Scan(context.WithoutCancel(t.Context()), "", after, 400)
		must(t, err)
		if len(page) == 0 {
			return all
		}
		for _, r := range page {
			after = r.Key
			var v struct{ Value stored }
			if family, _, _ := strings.Cut(r.Key, "/"); slices.Contains([]string{"sub", "pro", "quota", "ver"}, family) {
				must(t, json.Unmarshal(r.Value.Bytes(), &v))
			}
			all[r.Key] = v.Value
		}
	}
}

// audit checks that each subscription has a status of its generation and an index record, that nothing else has one, and
// that each stripe of a counter has the number of the records that it counts.
func (w *world) audit(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	all := w.all(t)
	want, have := map[string]int{}, map[string]int{} // stripes
	subscriptions, statuses, uses := 0, 0, 0
	count := func(kind, principal string, v stored) {
		if v.Ended == nil {
			want["quota/"+kind+"/"+principal+"/"+strconv.Itoa(v.Counted[0])]++
			want["quota/"+kind+"/all/"+strconv.Itoa(v.Counted[1])]++
		}
	}
	for key, v := range all {
		segments := strings.Split(key, "/")
		switch segments[0] {
		case "sub":
			status, there := all["pro/"+v.Shard.Topic+"/"+strconv.Itoa(v.Shard.Number)+"/"+v.ID]
			if subscriptions++; !there || status.Generation != v.Generation {
				t.Errorf("%s has generation %d, its status %d", key, v.Generation, status.Generation)
			}
		case "use":
			v, there := all["sub/"+segments[3]]
			if uses++; !there {
				t.Errorf("%s is the index of no subscription", key)
			}
			count("sub", segments[1], v)
		case "pro":
			statuses++
		case "ver":
			count("ver", segments[1], v)
		case "quota":
			have[key] = v.Used
		}
	}
	if statuses != subscriptions || uses != subscriptions {
		t.Errorf("there are %d subscriptions, %d status records and %d index records", subscriptions, statuses, uses)
	}
	if !maps.Equal(want, have) {
		t.Errorf("the stripes should have\n%v, they have\n%v", want, have)
	}
}
