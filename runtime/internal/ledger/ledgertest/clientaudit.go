package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A clientRecord is a record of a client or of MCPE as the audit reads it.
type clientRecord struct {
	N     uint64 // of an index record
	Used  int    // of a counter
	Due   bool   // of a dead letter
	Taken uint64 // of a cursor
	Queue uint64 // of a schedule
}

// noEventID is the hash of the event ID "".
const noEventID = "7daed43814b633951fa277cd01695574"

// auditClients checks that the counters and indexes of dead letters and of webhook bodies are those of the records, and
// that each part of a queue belongs to a schedule.
func (w *world) auditClients(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	all := map[string]clientRecord{}
	for _, family := range []string{"cur/", "rcv/", "dl/", "sch/", "que/"} {
		for after := ""; ; {
			page, err := w.raw.Scan(context.WithoutCancel(t.Context()), family, after, 400)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				var v struct{ Value clientRecord }
				_ = json.Unmarshal(r.Value.Bytes(), &v) // a test may have damaged it
				all[r.Key], after = v.Value, r.Key
			}
		}
	}
	want := map[string]string{} // index records of letters and bodies
	letters := map[string]int{}
	have := map[string]string{}
	queues := map[string]bool{}
	for key, v := range all {
		if strings.HasPrefix(key, "sch/") {
			queues[fmt.Sprintf("%016x", v.Queue)] = true
		}
	}
	for key, v := range all {
		segments := strings.Split(key, "/")
		last := segments[len(segments)-1]
		n, _ := strconv.ParseUint(last[:min(16, len(last))], 16, 64)
		switch kind := strings.Join(segments[:2], "/"); {
		case kind == "dl/letter":
			parts := strings.Split(last, ".")
			letters["dl/count/"+parts[1]]++
			want["dl/id/"+parts[1]+"/"+parts[2]] = fmt.Sprint(n)
			if v.Due {
				want["dl/due/"+parts[1]+"/"+parts[0]+"."+parts[2]] = "0"
			}
		case kind == "dl/id", kind == "dl/due":
			have[key] = fmt.Sprint(v.N)
		case kind == "dl/count":
			have[key] = fmt.Sprint(v.Used)
		case segments[0] == "rcv" && segments[2] == "body" && n > all["cur/"+segments[1]].Taken:
			want["rcv/"+segments[1]+"/id/"+last[17:]] = fmt.Sprint(n)
		case segments[0] == "rcv" && segments[2] == "id" && v.N > all["cur/"+segments[1]].Taken:
			have[key] = fmt.Sprint(v.N)
		case segments[0] == "que" && !queues[segments[1]]:
			t.Errorf("%s belongs to no schedule", key)
		}
	}
	for key, n := range letters {
		want[key] = fmt.Sprint(n)
	}
	// Letters without an event ID are in no index of event IDs.
	maps.DeleteFunc(want, func(key, _ string) bool {
		return strings.HasSuffix(key, "/"+noEventID) && have[key] == ""
	})
	if !maps.Equal(want, have) {
		t.Errorf("the indexes and counters should be\n%v, they are\n%v", sorted(want), sorted(have))
	}
}

func sorted(m map[string]string) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+" "+m[key])
	}
	return lines
}
