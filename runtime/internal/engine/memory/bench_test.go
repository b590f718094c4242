package memory

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const many = 100_000

// filled returns an engine with many records, and their keys and revisions.
func filled(b *testing.B) (e *Engine, keys []string, on []uint64) {
	b.Helper()
	e = opened(b)
	for i := range many {
		keys = append(keys, key(i))
		on = append(on, commit(b, e, store.Write{Key: keys[i], Value: &typed{}})[0])
	}
	return e, keys, on
}

// BenchmarkInsert inserts 100,000 records per operation, one per commit.
func BenchmarkInsert(b *testing.B) {
	for b.Loop() {
		filled(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/record")
	b.ReportMetric(float64(bytesPerRecord(b, many)), "B/record")
}

// BenchmarkReplace replaces a record of 100,000.
func BenchmarkReplace(b *testing.B) {
	e, keys, on := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := i % many
		on[k] = commit(b, e, store.Write{Key: keys[k], On: on[k], Value: &typed{}})[0]
	}
}

// BenchmarkReplace190 replaces 190 records of 100,000 in a commit, as an owner saves progress.
func BenchmarkReplace190(b *testing.B) {
	e, keys, on := filled(b)
	b.ReportAllocs()
	writes := make([]store.Write, 190)
	for i := 0; b.Loop(); i++ {
		for j := range writes {
			k := (i*190 + j) % many
			writes[j] = store.Write{Key: keys[k], On: on[k], Value: &typed{}}
		}
		for j, r := range commit(b, e, writes...) {
			on[(i*190+j)%many] = r
		}
	}
}

// BenchmarkGet gets one record of 100,000.
func BenchmarkGet(b *testing.B) {
	e, keys, _ := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if found, err := e.Get(b.Context(), store.Latest, keys[i%many]); err != nil || found[0].Value == nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScan reads 100,000 records in pages of 1,000 per operation.
func BenchmarkScan(b *testing.B) {
	e, _, _ := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for after := ""; ; {
			page, err := e.Scan(b.Context(), "pro/", after, 1000)
			if err != nil {
				b.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			n, after = n+len(page), page[len(page)-1].Key
		}
		if n != many {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/record")
}
