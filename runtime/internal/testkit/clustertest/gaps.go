package clustertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// gapMeetsASubscribe tests a gap that an operator raises right before or right after a subscribe at another process. The
// owner of the subscription reads of both later. Only the subscription that was admitted before the gap gets it.
func gapMeetsASubscribe(f *fleet) {
	f.start(3)
	for i := range 12 {
		owner, admits, raises := f.members[i%3], f.members[(i+1)%3], f.members[(i+2)%3]
		if i/3%2 == 1 {
			admits, raises = raises, admits
		}
		gapFirst, url, id := i >= 6, hook(i), fmt.Sprint("i", i)
		principal := f.principalOf(owner)
		read := admits.stream("", `{"name":"e"}`)
		if f.Silence != nil {
			f.Silence(owner.store, engine.ControlLog)
		}
		if !gapFirst {
			admits.subscribe(principal, params(url, secretA, ""))
		}
		if _, err := raises.Admin().RaiseGap(f.Context(), operator.Target{Event: "e"}); err != nil {
			f.Fatal(err)
		}
		if gapFirst {
			f.soon("the admitting process has read of the gap", func() bool { return len(read.frames()) > 1 })
			admits.subscribe(principal, params(url, secretA, ""))
		}
		if f.Silence != nil {
			f.Silence(owner.store, "no log")
		}
		admits.emit(incident{ID: id})
		want := []string{"gap", id}
		if gapFirst {
			want = want[1:]
		}
		f.soon("the delivery and the gap", func() bool { return len(f.r.requestsTo(url)) >= len(want) })
		time.Sleep(200 * time.Millisecond) // another envelope would have arrived by now
		read.end()
		got := f.r.requestsTo(url)
		slices.Sort(got)
		f.equal(fmt.Sprintf("subscribed at %s, gap at %s, owner %s", admits.name, raises.name, owner.name), got, want...)
		admits.unsubscribe(principal, url)
	}
}

// principalOf returns a principal whose subscriptions without arguments belong to the owner.
func (f *fleet) principalOf(owner *member) string {
	f.Helper()
	for i := 0; ; i++ {
		principal, url := fmt.Sprint("p", i), hook(-1)
		s := owner.subscribe(principal, params(url, secretA, ""))
		found := f.owner(s.ID) == owner
		owner.unsubscribe(principal, url)
		if found {
			return principal
		}
	}
}
