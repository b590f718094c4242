package pattern

// An op is the kind of a node.
type op int

const (
	opEmpty     op = iota
	opSet          // one code point of a set
	opConcat       // its parts in sequence
	opAlternate    // one of its parts
	opRepeat       // its part, least to most times
	opCapture      // its part, kept for back references
	opBegin        // the start of the text
	opEnd          // the end of the text
	opBoundary     // between a word character and another; negated reverses this
	opLook         // its part ahead or behind, without consuming it
	opBack         // the text of a group
)

// A node is a part of a pattern.
type node struct {
	op    op
	set   set     // of opSet
	parts []*node // one for opRepeat, opCapture and opLook
	// least and most limit a repetition. A lazy repetition prefers fewer turns.
	least, most int
	lazy        bool
	// group is the number of a capture or of the target of a back reference. name is a group name until it is resolved.
	group int
	name  string
	at    int
	// negated and behind apply to assertions.
	negated, behind bool
	// first and last are the first and last group inside a repetition, which clears these groups before each turn.
	first, last int
}

// unbounded is the upper bound of * and +.
const unbounded = 1<<31 - 1

// A tree is a parsed pattern.
type tree struct {
	root   *node
	groups int // number of captures, without the whole match
}
