package source

// Clone returns a copy of n and all below it, without a parent.
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

// Become makes n what other is, in n's place: its kind, content and range. Other is used up.
func (n *Node) Become(other *Node) {
	n.Kind, n.Range, n.Text, n.Items, n.Members, n.index = other.Kind, other.Range, other.Text, other.Items, other.Members, nil
	for i, item := range n.Items {
		item.Parent, item.slot = n, i
	}
	for i, m := range n.Members {
		m.Value.Parent, m.Value.slot = n, i
	}
}

// Set gives the object n a member, in the place of one of that name or as the last; at is where the
// reader is sent for it.
func (n *Node) Set(key string, at Range, value *Node) {
	if m := n.Member(key); m != nil {
		value.Parent, value.slot = n, m.Value.slot
		m.KeyRange, m.Value = at, value
		return
	}
	n.Add(key, at, value)
}

// Detach takes n out of the array or object that holds it; a root stays.
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
