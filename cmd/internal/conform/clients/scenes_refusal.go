package clients

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// refusalScenes returns scenes with servers that refuse polls or terminate streams, with the codes of both families
// (CLI-7, D2).
func refusalScenes() (all []scene) {
	for _, family := range []struct {
		name, owner string
		codes       wire.Dialect
	}{{"sketch", "the sketch's", wire.Sketch}, {"sep", "the SEP's", wire.SEP}} {
		all = append(all,
			refusingScene(family.codes.Code(wire.NotFound), true, finishAfterReturn,
				check{id: "CLI-7", name: "not-found-" + family.name, title: "The client lists events after " + family.owner + " NotFound for %s", run: expectListAgain}),
			refusingScene(family.codes.Code(wire.Forbidden), false, finishLater(8*time.Second),
				check{id: "CLI-7", name: "forbidden-" + family.name, title: "The client stops after " + family.owner + " Forbidden for %s and reports it", run: expectStop}))
	}
	all = append(all, refusingScene(-31999, false, finishLater(8*time.Second),
		check{id: "CLI-7", name: "refused-unknown", title: "The client does not stop silently after an unknown code for %s", run: expectNotSilent}))
	var each []scene
	for _, sc := range all {
		each = append(each, inModes(sc, wire.ModePoll, wire.ModePush)...)
	}
	return each
}

// refusingScene returns a scene with a server that refuses the second poll and terminates the first stream. Unless once
// is set, it also refuses all later ones. The scene has the name of its check.
func refusingScene(code int64, once bool, background func(ctx context.Context, s *stage), c check) scene {
	data := "null"
	if once {
		data = `{"kind":"event"}`
	}
	return scene{name: c.name, maxDuration: 60 * time.Second, checks: []check{c}, background: background,
		poll: func(s *stage, a *clientCall, n int) reply {
			if n == 1 || once && n > 2 {
				return nil
			}
			s.mark("refused")
			return refuse(a, code, "Refused", data)
		},
		stream: func(s *stage, c *channel, n int) bool {
			if n > 1 && once {
				return false
			}
			if n > 1 || c.openFirst() {
				s.mark("refused")
				c.terminate(code, "Refused", data)
			}
			return true
		}}
}
