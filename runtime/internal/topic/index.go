package topic

import (
	"slices"
	"strconv"
	"strings"
)

// An index finds the parked readers that an occurrence might match. Readers are grouped by shape, the set of rules that
// their arguments test for equality. Within a shape, they are grouped by a composite of the tested values. An
// occurrence is looked up once per shape, regardless of the number of readers. All other rules are evaluated for the
// readers that the lookup finds.
//
// The topic's lock guards it.
type index struct {
	shapes []*shape
	byID   map[string][]*Reader // all attached readers, for targeted occurrences
}

// Bounds of the index. After maxShapes shapes exist, a reader with a new shape is indexed only by the first rule of
// that shape. An occurrence with more than MaxComposites combinations of array elements is compared with every bucket
// of the shape.
const (
	maxShapes     = 32
	MaxComposites = 64
)

type shape struct {
	rules   []int
	buckets map[string]*bucket
}

type bucket struct {
	shape  *shape
	key    string    // the composite of the values, by rule of the shape
	refs   int       // attached readers
	parked []*Reader // the parked readers among them
}

// attach adds r to its bucket.
func (x *index) attach(r *Reader) {
	rules := r.args.shape()
	s := x.shapeOf(rules)
	if s == nil && len(x.shapes) >= maxShapes && len(rules) > 1 {
		rules = rules[:1]
		s = x.shapeOf(rules)
	}
	if s == nil {
		s = &shape{rules: rules, buckets: map[string]*bucket{}}
		x.shapes = append(x.shapes, s)
	}
	key := r.args.composite(rules)
	b := s.buckets[string(key)]
	if b == nil {
		b = &bucket{shape: s, key: string(key)}
		s.buckets[b.key] = b
	}
	b.refs++
	r.bucket = b
	if x.byID == nil {
		x.byID = map[string][]*Reader{}
	}
	r.twin = len(x.byID[r.id])
	x.byID[r.id] = append(x.byID[r.id], r)
}

func (x *index) detach(r *Reader) {
	x.unpark(r)
	b := r.bucket
	r.bucket = nil
	if b.refs--; b.refs == 0 {
		delete(b.shape.buckets, b.key)
		if len(b.shape.buckets) == 0 {
			i := slices.Index(x.shapes, b.shape)
			x.shapes = slices.Delete(x.shapes, i, i+1)
		}
	}
	same := x.byID[r.id]
	last := len(same) - 1
	same[r.twin] = same[last]
	same[r.twin].twin = r.twin
	same[last] = nil
	same = same[:last]
	if len(same) == 0 {
		delete(x.byID, r.id)
	} else {
		x.byID[r.id] = same
	}
}

func (x *index) shapeOf(rules []int) *shape {
	for _, s := range x.shapes {
		if slices.Equal(s.rules, rules) {
			return s
		}
	}
	return nil
}

func (x *index) park(r *Reader) {
	r.slot = len(r.bucket.parked)
	r.bucket.parked = append(r.bucket.parked, r)
}

func (x *index) unpark(r *Reader) {
	if r.slot < 0 {
		return
	}
	p := r.bucket.parked
	last := len(p) - 1
	p[r.slot] = p[last]
	p[r.slot].slot = r.slot
	p[last] = nil
	r.bucket.parked = p[:last]
	r.slot = -1
}

// wakeMatching unparks every parked reader that rec might match and calls woken with it.
func (x *index) wakeMatching(rec *record, woken func(*Reader)) {
	if rec.entry.Targets != nil {
		for _, id := range rec.entry.Targets {
			for _, r := range x.byID[id] {
				if r.slot >= 0 && r.args.mayMatch(rec.places) {
					x.unpark(r)
					woken(r)
				}
			}
		}
		return
	}
	for _, s := range x.shapes {
		keys, ok := compositeKeys(s.rules, rec.places, len(s.buckets))
		if !ok {
			for _, b := range s.buckets {
				if b.matchesPlaces(rec.places) {
					x.wakeBucket(b, rec, woken)
				}
			}
			continue
		}
		for _, k := range keys {
			if b := s.buckets[k]; b != nil {
				x.wakeBucket(b, rec, woken)
			}
		}
	}
}

func (x *index) wakeBucket(b *bucket, rec *record, woken func(*Reader)) {
	// Iterate backward, because unparking moves the last reader into the free slot.
	for i := len(b.parked) - 1; i >= 0; i-- {
		r := b.parked[i]
		if !r.args.mayMatch(rec.places) {
			continue
		}
		x.unpark(r)
		woken(r)
	}
}

// visitReaders calls f for all attached readers.
func (x *index) visitReaders(f func(*Reader)) {
	for _, same := range x.byID {
		for _, r := range same {
			f(r)
		}
	}
}

// matchesPlaces reports whether the places contain all values of the bucket's readers.
func (b *bucket) matchesPlaces(ps []place) bool {
	rest := b.key
	for _, rule := range b.shape.rules {
		var value string
		value, rest = cutKey(rest)
		if !ps[rule].hasKey(value) {
			return false
		}
	}
	return true
}

// compositeKeys returns the keys of the buckets whose readers an occurrence might match. It returns false if there are
// more than MaxComposites keys and more keys than buckets. If a place has no value, the list is empty, because the
// occurrence cannot match readers of the shape.
func compositeKeys(rules []int, ps []place, buckets int) ([]string, bool) {
	if len(rules) == 1 && len(ps[rules[0]].keys) == 1 {
		return []string{string(appendKey(nil, ps[rules[0]].keys[0]))}, true
	}
	n := 1
	for _, r := range rules {
		if n *= len(ps[r].keys); n == 0 {
			return nil, true
		}
		n = min(n, 1<<30)
	}
	if n > MaxComposites && n > buckets {
		return nil, false
	}
	keys := [][]byte{nil}
	for _, r := range rules {
		values := ps[r].keys
		next := make([][]byte, 0, len(keys)*len(values))
		for _, k := range keys {
			for _, v := range values {
				next = append(next, appendKey(append([]byte(nil), k...), v))
			}
		}
		keys = next
	}
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = string(k)
	}
	return out, true
}

// appendKey appends one value to a composite. It adds the length of the value as a prefix, so different sequences of
// values result in different composites.
func appendKey(b []byte, key string) []byte {
	b = strconv.AppendInt(b, int64(len(key)), 10)
	b = append(b, ':')
	return append(b, key...)
}

// cutKey returns the first value of a composite and the composite of the rest.
func cutKey(composite string) (key, rest string) {
	length, rest, _ := strings.Cut(composite, ":")
	n, _ := strconv.Atoi(length)
	return rest[:n], rest[n:]
}
