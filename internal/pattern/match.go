package pattern

// Limits of one match. They limit steps instead of time, because the validity of a value must not depend on the
// machine's load.
const (
	maxSteps = 1 << 22 // about 50 ms
	maxStack = 1 << 20 // entries, 40 MB
)

// A machine executes a program on one text.
type machine struct {
	p     *program
	text  []rune
	slots []int
	stack []entry
	steps int
}

// An entry is a backtracking action on the stack: restore a slot or try an alternative.
type entry struct {
	kind entryKind
	// slot and was specify a slot to restore. pc and at specify an alternative.
	pc, at, slot, was int
}

type entryKind uint8

const (
	putBack  entryKind = iota
	tryAt              // continue at pc from at
	giveBack           // a greedy run returns one code point, down to was
	takeMore           // a lazy run takes one more code point, up to was turns
)

// MatchString reports whether s contains a match. If matching takes too many steps, it returns false.
func (p *program) MatchString(s string) bool {
	return (&machine{p: p}).match(s)
}

// match tries a match at every offset of s.
func (m *machine) match(s string) bool {
	m.text, m.slots = []rune(s), make([]int, m.p.slots)
	for start := 0; start <= len(m.text) && m.steps < maxSteps; start++ {
		for i := range m.slots {
			m.slots[i] = -1
		}
		m.stack = m.stack[:0]
		if m.run(0, start) {
			return true
		}
	}
	return false
}

func (m *machine) set(slot, value int) {
	m.stack = append(m.stack, entry{kind: putBack, slot: slot, was: m.slots[slot]})
	m.slots[slot] = value
}

func (m *machine) exhausted() bool { return m.steps > maxSteps || len(m.stack) > maxStack }

// run executes the program from pc at an offset in the text until it matches or all alternatives fail. After a match,
// the stack has entries that can undo the captures.
func (m *machine) run(pc, at int) bool {
	base := len(m.stack)
	for {
		m.steps++
		if m.exhausted() {
			m.steps = maxSteps + 1
			m.restoreSlots(base)
			return false
		}
		if m.p.steps[pc].code == doMatch {
			return true
		}
		var ok bool
		if pc, at, ok = m.step(pc, at); ok {
			continue
		}
		if pc, at, ok = m.backtrack(base); !ok {
			return false
		}
	}
}

// step executes one instruction. It returns false if the instruction fails.
func (m *machine) step(pc, at int) (int, int, bool) {
	in := &m.p.steps[pc]
	switch in.code {
	case doSet:
		next, ok := m.consume(in, at)
		return pc + 1, next, ok
	case doRun:
		return m.repeatSet(in, pc, at)
	case doJump:
		return in.to, at, true
	case doFork:
		m.stack = append(m.stack, entry{kind: tryAt, pc: in.to, at: at})
	case doEnter:
		m.set(in.x, 0)
	case doTurn:
		return m.turn(in, pc, at)
	case doTurned:
		if m.slots[in.x] > in.least && m.slots[in.x+1] == at {
			return 0, 0, false
		}
		return in.to, at, true
	case doSave:
		m.set(in.x, at)
	case doBegin:
		return pc + 1, at, at == 0
	case doEnd:
		return pc + 1, at, at == len(m.text)
	case doBoundary:
		return pc + 1, at, (m.word(at-1) != m.word(at)) != in.negated
	case doLook:
		return in.to, at, m.look(in, pc, at)
	case doBack:
		next, ok := m.matchGroupText(in, at)
		return pc + 1, next, ok
	}
	return pc + 1, at, true
}

func (m *machine) consume(in *instruction, at int) (int, bool) {
	if in.backward {
		return at - 1, at > 0 && in.set.has(m.text[at-1])
	}
	return at + 1, at < len(m.text) && in.set.has(m.text[at])
}

// repeatSet matches a repeated set. Each repetition consumes one code point. A single stack entry represents all
// repetitions.
func (m *machine) repeatSet(in *instruction, pc, at int) (int, int, bool) {
	n := 0
	for want := in.least; n < want; n++ {
		next, ok := m.consume(in, at)
		if !ok {
			return 0, 0, false
		}
		at = next
	}
	if in.lazy {
		m.stack = append(m.stack, entry{kind: takeMore, pc: pc, at: at, was: in.most - n})
		return pc + 1, at, true
	}
	least := at
	for ; n < in.most; n++ {
		next, ok := m.consume(in, at)
		if !ok {
			break
		}
		at = next
	}
	m.steps += n / 8
	if at != least {
		m.stack = append(m.stack, entry{kind: giveBack, pc: pc, at: at, was: least})
	}
	return pc + 1, at, true
}

func (m *machine) turn(in *instruction, pc, at int) (int, int, bool) {
	count := m.slots[in.x]
	switch {
	case count >= in.most:
		return in.to, at, true
	case count >= in.least && in.lazy:
		// A negative pc marks a turn that remains to be tried; no instruction could express that.
		m.stack = append(m.stack, entry{kind: tryAt, pc: -pc, at: at})
		return in.to, at, true
	case count >= in.least:
		m.stack = append(m.stack, entry{kind: tryAt, pc: in.to, at: at})
	}
	m.beginTurn(in, at)
	return pc + 1, at, true
}

// beginTurn starts a turn of a repetition. It increments the count and clears the groups in the repetition.
func (m *machine) beginTurn(in *instruction, at int) {
	m.set(in.x, m.slots[in.x]+1)
	m.set(in.x+1, at)
	for g := in.first; g <= in.last; g++ {
		if m.slots[2*g] >= 0 || m.slots[2*g+1] >= 0 {
			m.set(2*g, -1)
			m.set(2*g+1, -1)
		}
	}
}

func (m *machine) word(at int) bool { return at >= 0 && at < len(m.text) && words.has(m.text[at]) }

// look evaluates an assertion. A positive assertion keeps its captures, but backtracking does not enter it.
func (m *machine) look(in *instruction, pc, at int) bool {
	base := len(m.stack)
	found := m.run(pc+1, at)
	if in.negated {
		m.restoreSlots(base)
		return !found && m.steps <= maxSteps
	}
	if found {
		kept := m.stack[:base]
		for _, e := range m.stack[base:] {
			if e.kind == putBack {
				kept = append(kept, e)
			}
		}
		m.stack = kept
	}
	return found
}

// matchGroupText consumes the text of a group. The text of an unset group is empty.
func (m *machine) matchGroupText(in *instruction, at int) (int, bool) {
	from, to := m.slots[2*in.x], m.slots[2*in.x+1]
	if from < 0 || to < 0 {
		return at, true
	}
	n := to - from
	m.steps += n / 8
	start := at
	if in.backward {
		start = at - n
	}
	if start < 0 || start+n > len(m.text) {
		return 0, false
	}
	for i := range n {
		if m.text[start+i] != m.text[from+i] {
			return 0, false
		}
	}
	if in.backward {
		return start, true
	}
	return at + n, true
}

// backtrack pops the newest alternative above base. It returns false if there are only entries that restore slots.
func (m *machine) backtrack(base int) (pc, at int, ok bool) {
	for len(m.stack) > base {
		top := &m.stack[len(m.stack)-1]
		switch top.kind {
		case tryAt:
			pc, at = top.pc, top.at
			m.stack = m.stack[:len(m.stack)-1]
			if pc < 0 { // a lazy repetition takes another turn
				in := &m.p.steps[-pc]
				m.beginTurn(in, at)
				pc = 1 - pc
			}
			return pc, at, true
		case giveBack:
			in := &m.p.steps[top.pc]
			if top.at--; in.backward {
				top.at += 2
			}
			pc, at = top.pc+1, top.at
			if top.at == top.was {
				m.stack = m.stack[:len(m.stack)-1]
			}
			return pc, at, true
		case takeMore:
			in := &m.p.steps[top.pc]
			next, fits := m.consume(in, top.at)
			if top.was <= 0 || !fits {
				m.stack = m.stack[:len(m.stack)-1]
				continue
			}
			top.at, top.was = next, top.was-1
			return top.pc + 1, next, true
		case putBack:
			m.slots[top.slot] = top.was
			m.stack = m.stack[:len(m.stack)-1]
		}
	}
	return 0, 0, false
}

// restoreSlots removes all entries above base and restores their slots.
func (m *machine) restoreSlots(base int) {
	for len(m.stack) > base {
		if top := m.stack[len(m.stack)-1]; top.kind == putBack {
			m.slots[top.slot] = top.was
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
}
