package pattern

// An op is what a node matches.
type op int

const (
	opEmpty     op = iota
	opSet          // one code point of a set
	opConcat       // its parts, one after the other
	opAlternate    // one of its parts
	opRepeat       // its part, at least least and at most most times
	opCapture      // its part, kept for back references
	opBegin        // the begin of the text
	opEnd          // its end
	opBoundary     // between a word and what is none; negated the reverse
	opLook         // its part ahead or behind, without consuming it
	opBack         // what a group has matched
)

// A node is a part of a pattern.
type node struct {
	op    op
	set   set     // of opSet
	parts []*node // one for opRepeat, opCapture and opLook
	// least and most bound a repetition; lazy prefers fewer.
	least, most int
	lazy        bool
	// group numbers a capture and what a back reference names; name waits for its number.
	group int
	name  string
	at    int
	// negated and behind belong to assertions.
	negated, behind bool
	// first and last bound the groups inside a repetition: it forgets them before each turn.
	first, last int
}

// unbounded is the upper bound of * and +.
const unbounded = 1<<31 - 1

// A tree is a parsed pattern.
type tree struct {
	root   *node
	groups int // captures, the whole match aside
}
