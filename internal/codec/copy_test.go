package codec

import (
	"reflect"
	"testing"
	"time"
)

type named []int

type tree struct {
	Text    string
	At      time.Time
	Pointer *tree
	List    []tree
	Number  *int
	Array   [2]string
	Named   named
	Nested  [][]string
	fixed   [2]string
}

func number(n int) *int { return &n }

// A copy equals the value and shares no memory with it.
func TestCopy(t *testing.T) {
	newTree := func() *tree {
		leaf := func() *tree { return &tree{Text: "leaf", List: []tree{}, Named: named{}} }
		return &tree{Text: "x", At: time.Unix(1, 2).In(time.FixedZone("z", 60)), Pointer: leaf(), List: []tree{*leaf(), {Text: "y"}}, Number: number(1),
			Array: [2]string{"a"}, Named: named{1, 2}, Nested: [][]string{{"a"}, nil}, fixed: [2]string{"a", "b"}}
	}
	if !Copyable(reflect.TypeFor[tree]()) {
		t.Fatal("a tree cannot be copied")
	}
	original := newTree()
	c := Copy(original).(*tree)
	if !reflect.DeepEqual(c, newTree()) {
		t.Fatalf("%+v", c)
	}
	c.Text, c.Pointer.Text, c.List[0].Text, c.List[1].Text, c.Array[0] = "", "", "", "", ""
	*c.Number, c.Named[0], c.Nested[0][0] = 0, 0, ""
	c.List = append(c.List, *c)
	if !reflect.DeepEqual(original, newTree()) {
		t.Errorf("the original changed: %+v", original)
	}
}

// A type with memory that cannot be copied is not copyable.
func TestCopyable(t *testing.T) {
	for want, types := range map[bool][]any{
		true:  {0, "", [2]string{}, []byte{}, []*int{}, &tree{}, struct{ at time.Time }{}, struct{ n [2]int }{}},
		false: {struct{ A any }{}, []error{}, struct{ list []int }{}, struct{ p *int }{}, struct{ m map[string]int }{}, struct{ F func() }{}, make(chan int), map[string]int{}, [1]*int{}, struct{ named }{}},
	} {
		for _, v := range types {
			if Copyable(reflect.TypeOf(v)) != want {
				t.Errorf("%T: want %v", v, want)
			}
		}
	}
}
