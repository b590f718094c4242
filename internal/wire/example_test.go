package wire_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func ExampleCursor() {
	text := wire.Cursor{Kind: wire.LogCursor, Name: wire.NameHash("incident.created"), Epoch: 7, Position: 42}.String()
	c, err := wire.ParseCursor(text)
	fmt.Println(c.Position, c.Name == wire.NameHash("incident.created"), err)

	_, err = wire.ParseCursor("yesterday")
	fmt.Println(err)
	// Output:
	// 42 true <nil>
	// wire: malformed cursor
}

func ExampleCanonical() {
	for _, args := range []string{`null`, `{"b": 1.0, "a": "\u00e9"}`, `{"n": 9007199254740993}`} {
		canonical, err := wire.Canonical(json.RawMessage(args))
		fmt.Println(string(canonical), err)
	}
	// Output:
	// {} <nil>
	// {"a":"é","b":1} <nil>
	//  /n: is beyond ±9007199254740991, the integers that every peer represents exactly
}
