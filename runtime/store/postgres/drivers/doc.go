// Package drivers tests EmitSQL with common database/sql drivers: pgx, and github.com/lib/pq in the current release and
// in 1.10.9, which sends nil byte slices as empty ones. It is a separate module, so users of mcpe-gen do not download
// these drivers. Run `make drivers` to test each of them. The package makes no compatibility promise.
package drivers
