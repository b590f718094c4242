package ir

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// An accessor is a planned method that returns a field's value, or its default if the field is absent.
type accessor struct {
	decl    *Decl
	field   *Field
	value   *source.Node
	members scope
}

// finish completes the parts of the model that depend on all declarations: field types, member constants and accessors.
func (b *builder) finish() {
	for _, a := range b.pending {
		b.finishAccessor(a)
	}
	if source.HasErrors(b.diags) {
		return
	}
	cyclic := numberCycles(b.all)
	for _, d := range b.all {
		for _, f := range d.Fields {
			f.Type, f.OmitZero = fieldType(f, cyclic[d] != 0 && f.Base.Target() != nil && cyclic[d] == cyclic[f.Base.Target()])
			if f.Const == "" {
				f.Const = constantOf(f)
			}
		}
		d.Extra, d.Type = withoutRawPointers(d.Extra), withoutRawPointers(d.Type)
		for i := range d.Variants {
			if v := &d.Variants[i]; v.Decl.Form == Alias { // the type was not known when the union was filled
				v.Decl = (&Type{Kind: Named, Decl: v.Decl}).Target()
			}
		}
	}
}

// constantOf returns the constant for a required member with only one valid value. It returns "" if that is the zero
// value.
func constantOf(f *Field) string {
	t := f.Base.Target()
	if !f.Required || f.Nullable || t == nil || t.Form != Enum || len(t.Values) != 1 || t.Open {
		return ""
	}
	if only := t.Values[0]; !isZero(only.Literal) {
		return only.Name
	}
	return ""
}

// isZero reports whether a literal is the zero value of its Go type.
func isZero(literal string) bool { return literal == `""` || literal == "0" || literal == "false" }

// fieldType returns the Go type of a member. It is the type of the value, a pointer to it if the member can be absent
// or null, or Optional if both are possible. Slices, maps and raw JSON represent absence by nil.
func fieldType(f *Field, back bool) (t *Type, omit bool) {
	base := withoutRawPointers(f.Base)
	under := base.Under()
	if back { // the value contains its own type
		base = &Type{Kind: Pointer, Elem: base}
	}
	switch {
	case base.IsRaw():
		return base, !f.Required
	case !f.Required && f.Nullable:
		return &Type{Kind: Optional, Elem: base}, true
	case f.Required && !f.Nullable:
		return base, false
	case base.Kind == Pointer:
		return base, !f.Required
	case !f.Required && (under.Kind == Slice || under.Kind == Map || under.Kind == Bytes):
		return base, true
	case !f.Required && under.Kind == Named && under.Decl.EmptyIsAbsent():
		return base, true
	}
	return &Type{Kind: Pointer, Elem: base}, !f.Required
}

// withoutRawPointers replaces pointers to raw JSON with raw JSON, which can represent null itself.
func withoutRawPointers(t *Type) *Type {
	if t == nil || t.Elem == nil {
		return t
	}
	t.Elem = withoutRawPointers(t.Elem)
	if t.Kind == Pointer && t.Elem.IsRaw() {
		return t.Elem
	}
	return t
}

func (b *builder) finishAccessor(a accessor) {
	u := a.field.Base.Under()
	switch {
	case u.Kind == Named && u.Decl.Form == Enum:
		if v, ok := u.Decl.constantFor(a.value); ok {
			a.field.DefaultConst = v.Name
		}
	case u.Kind == String || u.Kind == Bool || u.Kind == Int64 || u.Kind == Float64:
		a.field.DefaultConst = scalarDefault(a.field.Default, a.value, u.Kind)
	}
	if a.field.DefaultConst != "" {
		b.declareName(a.members, a.field.Name+"OrDefault", "the default of member "+a.field.JSON, a.field.At)
	}
}

// numberCycles assigns the same number to structs that contain each other by value. It uses Tarjan's algorithm for
// strongly connected components. Other structs have no number.
func numberCycles(all []*Decl) map[*Decl]int {
	c := &components{index: map[*Decl]int{}, low: map[*Decl]int{}, group: map[*Decl]int{}, on: map[*Decl]bool{}}
	for _, d := range all {
		if c.index[d] == 0 {
			c.visit(d)
		}
	}
	return c.group
}

type components struct {
	index, low, group map[*Decl]int
	on                map[*Decl]bool
	stack             []*Decl
}

func (c *components) visit(d *Decl) {
	c.index[d] = len(c.index) + 1
	c.low[d] = c.index[d]
	c.stack = append(c.stack, d)
	c.on[d] = true
	self := false
	for _, f := range d.Fields {
		if f.Required == f.Nullable {
			continue // already a pointer
		}
		t := f.Base.Target()
		if t == nil || t.Form != Struct {
			continue
		}
		self = self || t == d
		if c.index[t] == 0 {
			c.visit(t)
			c.low[d] = min(c.low[d], c.low[t])
		} else if c.on[t] {
			c.low[d] = min(c.low[d], c.index[t])
		}
	}
	if c.low[d] != c.index[d] {
		return
	}
	for i := len(c.stack) - 1; ; i-- {
		t := c.stack[i]
		c.on[t] = false
		if t != d || i < len(c.stack)-1 || self {
			c.group[t] = c.index[d]
		}
		if t == d {
			c.stack = c.stack[:i]
			return
		}
	}
}
