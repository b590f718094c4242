// Package drivers holds EmitSQL against the drivers of database/sql that people use: pgx, and github.com/lib/pq
// in the present release and in 1.10.9, which sends nil bytes as empty ones. It is a module of its own, so that
// nobody who uses mcpe-gen downloads them; `make drivers` runs its tests, with each of the two. The package makes
// no promise of compatibility.
package drivers
