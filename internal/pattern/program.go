package pattern

// A code says what an instruction does.
type code uint8

const (
	doMatch    code = iota // the end of the program, or of what an assertion asks for
	doSet                  // consume one code point of set
	doRun                  // consume least to most code points of set
	doJump                 // go on at to
	doFork                 // go on behind, and at to when that fails; lazy the reverse
	doEnter                // begin a repetition: its count in slot x becomes 0
	doTurn                 // another turn of a repetition, or out of it to to
	doTurned               // the end of a turn: refuse one that consumed nothing
	doSave                 // keep the place in slot x
	doBegin                // the begin of the text
	doEnd                  // its end
	doBoundary             // a boundary of a word
	doLook                 // run what follows as an assertion, then go on at to
	doBack                 // consume what group x holds
)

// An instruction is one step of a program.
type instruction struct {
	code        code
	set         set
	to, x       int
	least, most int
	first, last int // groups that a turn forgets
	lazy        bool
	negated     bool
	backward    bool // consumes towards the begin, within a lookbehind
}

// A program matches by backtracking, as section 22.2.2 of ECMA-262 describes it: greedy or lazy as
// written, groups forgotten before each turn of a repetition, turns refused that consume nothing,
// references to groups without a value matching the empty text, lookbehinds read backwards.
type program struct {
	text   string
	steps  []instruction
	groups int
	slots  int // two a group, the whole match among them, then two a repetition
}

func (p *program) String() string { return p.text }

// assemble makes the program of a tree.
func assemble(t *tree, text string) *program {
	p := &program{text: text, groups: t.groups, slots: 2 * (t.groups + 1)}
	p.emit(t.root, false)
	p.add(instruction{code: doMatch})
	return p
}

func (p *program) add(i instruction) int {
	p.steps = append(p.steps, i)
	return len(p.steps) - 1
}

func (p *program) emit(n *node, backward bool) {
	switch n.op {
	case opSet:
		p.add(instruction{code: doSet, set: n.set, backward: backward})
	case opConcat:
		for i := range n.parts {
			if backward {
				i = len(n.parts) - 1 - i
			}
			p.emit(n.parts[i], backward)
		}
	case opAlternate:
		p.alternate(n, backward)
	case opRepeat:
		p.repeat(n, backward)
	case opCapture:
		first, second := 2*n.group, 2*n.group+1
		if backward {
			first, second = second, first
		}
		p.add(instruction{code: doSave, x: first})
		p.emit(n.parts[0], backward)
		p.add(instruction{code: doSave, x: second})
	case opBegin:
		p.add(instruction{code: doBegin})
	case opEnd:
		p.add(instruction{code: doEnd})
	case opBoundary:
		p.add(instruction{code: doBoundary, negated: n.negated})
	case opLook:
		at := p.add(instruction{code: doLook, negated: n.negated})
		p.emit(n.parts[0], n.behind)
		p.add(instruction{code: doMatch})
		p.steps[at].to = len(p.steps)
	case opBack:
		p.add(instruction{code: doBack, x: n.group, backward: backward})
	}
}

func (p *program) alternate(n *node, backward bool) {
	var ends []int
	for i, part := range n.parts {
		if i == len(n.parts)-1 {
			p.emit(part, backward)
			break
		}
		fork := p.add(instruction{code: doFork})
		p.emit(part, backward)
		ends = append(ends, p.add(instruction{code: doJump}))
		p.steps[fork].to = len(p.steps)
	}
	for _, e := range ends {
		p.steps[e].to = len(p.steps)
	}
}

func (p *program) repeat(n *node, backward bool) {
	if body := n.parts[0]; body.op == opSet {
		p.add(instruction{code: doRun, set: body.set, least: n.least, most: n.most, lazy: n.lazy, backward: backward})
		return
	}
	if n.most == 0 {
		return
	}
	count := p.slots
	p.slots += 2 // the count, and where the turn began
	p.add(instruction{code: doEnter, x: count})
	turn := p.add(instruction{
		code: doTurn, x: count, least: n.least, most: n.most, lazy: n.lazy, first: n.first, last: n.last,
	})
	p.emit(n.parts[0], backward)
	p.add(instruction{code: doTurned, x: count, least: n.least, to: turn})
	p.steps[turn].to = len(p.steps)
}
