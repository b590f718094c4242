package wire

import "encoding/json"

// NotBy is the subscription argument that excludes events caused by given actors: an array of strings. An event type
// accepts it if its descriptor has [MetaActor] (ACTOR-1).
const NotBy = "notBy"

// ActorOf returns the location of the actor in the payloads of an event type, as a JSON Pointer. In the pointer, *
// matches every element of an array. The result is empty if the descriptor's _meta does not specify it.
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
