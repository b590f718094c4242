// Package drivers tests EmitSQL with the usual drivers for database/sql. These are pgx, and github.com/lib/pq in the
// current release and in 1.10.9, which sends nil bytes as empty ones. It is a separate module, so that users of
// mcpe-gen do not download these drivers; `make drivers` runs its tests with each of them. The package makes no
// promise of compatibility.
package drivers
