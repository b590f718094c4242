package wire

import "encoding/json"

// NotBy is the subscription argument that excludes events caused by given actors: an array of strings. An event type
// whose descriptor has [MetaActor] accepts it (ACTOR-1).
const NotBy = "notBy"

// ActorOf returns the place of the actor in the payloads of an event type: a JSON Pointer in which * stands for every
// element of an array. It is empty if the descriptor's _meta has none.
func ActorOf(meta map[string]any) string {
	raw, err := json.Marshal(meta[MetaActor])
	if err != nil {
		return ""
	}
	var path string
	if json.Unmarshal(raw, &path) != nil {
		return ""
	}
	if _, ok := SplitPointer(path); !ok {
		return ""
	}
	return path
}
