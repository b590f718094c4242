package pattern

// A code is the operation of an instruction.
type code uint8

const (
	doMatch    code = iota // end of the program or of an assertion
	doSet                  // consume one code point of set
	doRun                  // consume least to most code points of set
	doJump                 // continue at to
	doFork                 // continue with the next instruction, and at to if that fails; lazy reverses this
	doEnter                // start a repetition: set its count in slot x to 0
	doTurn                 // start another turn of a repetition, or continue at to
	doTurned               // end a turn: fail if it consumed nothing
	doSave                 // store the offset in slot x
	doBegin                // the start of the text
	doEnd                  // the end of the text
	doBoundary             // a word boundary
	doLook                 // run the following instructions as an assertion, then continue at to
	doBack                 // consume the text of group x
)

// An instruction is a single step of a program.
type instruction struct {
	code        code
	set         set
	to, x       int
	least, most int
	first, last int // groups that a turn clears
	lazy        bool
	negated     bool
	backward    bool // consumes backwards, within a lookbehind
}

// A program matches a pattern by backtracking, as specified in section 22.2.2 of ECMA-262. Repetitions are greedy or
// lazy. They clear their groups before each turn. A turn that consumes nothing fails. References to unset groups match
// the empty text. Lookbehinds match backwards.
type program struct {
	text  string
	steps []instruction
	slots int // two for each group including the whole match, then two for each repetition
}

func (p *program) String() string { return p.text }

// assemble compiles a tree into a program.
func assemble(t *tree, text string) *program {
	p := &program{text: text, slots: 2 * (t.groups + 1)}
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
	p.slots += 2 // the count, and the start of the turn
	p.add(instruction{code: doEnter, x: count})
	turn := p.add(instruction{
		code: doTurn, x: count, least: n.least, most: n.most, lazy: n.lazy, first: n.first, last: n.last,
	})
	p.emit(n.parts[0], backward)
	p.add(instruction{code: doTurned, x: count, least: n.least, to: turn})
	p.steps[turn].to = len(p.steps)
}
