// Package attemptlog encodes all attempts in one update of a subscription as a single value for the durable stores. A
// hundred attempts therefore require only one row.
package attemptlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// formatVersion is the version of the encoding, stored in its first byte.
const formatVersion = 1

// ErrMalformed is returned for data that was not written by Encode.
var ErrMalformed = errors.New("attempts are malformed")

// Encode encodes attempts in order. The encoding of an attempt contains its times in Unix nanoseconds (0 for no time),
// its numbers, and its strings with their lengths.
func Encode(attempts []operator.Attempt) []byte {
	b := make([]byte, 0, 1+80*len(attempts))
	b = append(b, formatVersion)
	for i := range attempts {
		a := &attempts[i]
		b = binary.AppendVarint(b, scalar.Nanos(a.At))
		b = binary.AppendVarint(b, int64(a.Took))
		b = binary.AppendVarint(b, scalar.Nanos(a.NextAt))
		b = binary.AppendVarint(b, int64(a.Number))
		b = binary.AppendVarint(b, int64(a.Status))
		b = binary.AppendVarint(b, int64(a.Position))
		for _, text := range [...]string{a.EventID, a.Event, a.Category, a.AskedBy} {
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	return b
}

// Decode decodes the output of Encode.
func Decode(b []byte) (attempts []operator.Attempt, err error) {
	if len(b) == 0 || b[0] != formatVersion {
		return nil, ErrMalformed
	}
	for b = b[1:]; len(b) > 0; {
		var numbers [6]int64
		for i := range numbers {
			n := 0
			if numbers[i], n = binary.Varint(b); n <= 0 {
				return nil, fmt.Errorf("%w: attempt %d", ErrMalformed, len(attempts))
			}
			b = b[n:]
		}
		var texts [4]string
		for i := range texts {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, fmt.Errorf("%w: attempt %d", ErrMalformed, len(attempts))
			}
			texts[i] = string(b[n : n+int(size)])
			b = b[n+int(size):]
		}
		attempts = append(attempts, operator.Attempt{At: scalar.Time(numbers[0]), Took: time.Duration(numbers[1]), NextAt: scalar.Time(numbers[2]),
			Number: clamp(numbers[3]), Status: clamp(numbers[4]), Position: store.Position(numbers[5]), EventID: texts[0], Event: texts[1], Category: texts[2],
			AskedBy: texts[3]})
	}
	return attempts, nil
}

func clamp(n int64) int { return int(min(max(n, math.MinInt32), math.MaxInt32)) }

// Latest decodes up to limit attempts from several encodings. The encodings and the returned attempts are ordered from
// newest to oldest.
func Latest(encoded [][]byte, limit int) (attempts []operator.Attempt, err error) {
	for _, b := range encoded {
		some, err := Decode(b)
		if err != nil {
			return nil, err
		}
		slices.Reverse(some)
		attempts = append(attempts, some...)
		if len(attempts) >= limit {
			return attempts[:max(limit, 0)], nil
		}
	}
	return attempts, nil
}
