package source

// Clone returns a deep copy of n without a parent.
func (n *Node) Clone() *Node {
	c := &Node{Kind: n.Kind, Range: n.Range, Text: n.Text}
	for i, item := range n.Items {
		child := item.Clone()
		child.Parent, child.slot = c, i
		c.Items = append(c.Items, child)
	}
	for i, m := range n.Members {
		child := m.Value.Clone()
		child.Parent, child.slot = c, i
		c.Members = append(c.Members, Member{Key: m.Key, KeyRange: m.KeyRange, Value: child})
	}
	return c
}

// Become replaces the kind, content and range of n with those of other. The caller must not use other after the call.
func (n *Node) Become(other *Node) {
	n.Kind, n.Range, n.Text, n.Items, n.Members, n.index = other.Kind, other.Range, other.Text, other.Items, other.Members, nil
	for i, item := range n.Items {
		item.Parent, item.slot = n, i
	}
	for i, m := range n.Members {
		m.Value.Parent, m.Value.slot = n, i
	}
}

// Set sets a member of the object n. It replaces an existing member with that key, or appends a new member. at is the
// range of the key for diagnostics.
func (n *Node) Set(key string, at Range, value *Node) {
	if m := n.Member(key); m != nil {
		value.Parent, value.slot = n, m.Value.slot
		m.KeyRange, m.Value = at, value
		return
	}
	n.Add(key, at, value)
}

// Detach removes n from its parent array or object. It does nothing if n is a root.
func (n *Node) Detach() {
	p := n.Parent
	if p == nil {
		return
	}
	n.Parent = nil
	var items []*Node
	for _, item := range p.Items {
		if item != n {
			item.slot = len(items)
			items = append(items, item)
		}
	}
	var members []Member
	for _, m := range p.Members {
		if m.Value != n {
			m.Value.slot = len(members)
			members = append(members, m)
		}
	}
	p.Items, p.Members, p.index = items, members, nil
}
