package postgres_test

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/sqltest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

var oneKey, anotherKey = sqltest.OneKey, sqltest.AnotherKey

// engineOf returns the engine of the stores in a schema.
func engineOf(t *testing.T, schema string) sqltest.Engine {
	return sqltest.Engine{
		Open: func(key []byte, old ...[]byte) (sqltest.Store, error) {
			return postgres.Open(t.Context(), pgtest.URL(t), quiet(postgres.Options{Schema: schema, Key: key, OldKeys: old}))
		},
		Exec: func(statement string) { t.Helper(); pgtest.Exec(t, pgtest.URL(t), statement) },
		Count: func(query string) int {
			n, err := strconv.Atoi(pgtest.Query(t, pgtest.URL(t), query))
			if err != nil {
				t.Fatal(err)
			}
			return n
		},
		Schema:  schema + ".",
		Plain:   func(text string) string { return `'\x00'::bytea || convert_to('` + text + `', 'UTF8')` },
		Sealed:  "get_byte(secrets, 0) = 1",
		Garbage: "'x'",
		Forget:  "UPDATE " + schema + ".store SET sealed = NULL",
		ErrKey:  postgres.ErrKey, ErrCorrupt: postgres.ErrCorrupt,
	}
}

// K13, S5.
func TestFirstKey(t *testing.T) {
	schema := pgtest.Schema(t)
	sqltest.TestFirstKey(t, engineOf(t, schema))
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: oneKey}, postgres.ErrKey, "is missing")
}

// S5: keys change while processes run: first all processes learn the new key, then they seal with it, then the old
// one is unnecessary.
func TestNewKey(t *testing.T) {
	schema := pgtest.Schema(t)
	first := open(t, schema, postgres.Options{Key: oneKey})
	sqltest.Put(t, first, "sub_1", "sub_2")
	told := open(t, schema, postgres.Options{Key: oneKey, OldKeys: [][]byte{anotherKey}})
	first.Close()
	now := open(t, schema, postgres.Options{Key: anotherKey, OldKeys: [][]byte{oneKey}})
	sqltest.Have(t, now, "sub_1", "sub_2")
	prefixes := "SELECT string_agg(DISTINCT substring(secrets FROM 1 FOR 5)::text, ' ') = substring((SELECT sealed FROM " + schema + ".store) FROM 1 FOR 5)::text FROM " + schema + ".subscriptions"
	enginetest.WaitUntil(t, "all lie under the new key", func() bool { return pgtest.Query(t, pgtest.URL(t), prefixes) == "t" })
	sqltest.Have(t, told, "sub_1", "sub_2")
	told.Close()
	now.Close()
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: oneKey}, postgres.ErrKey)
	isRefused(t, as(t, pgtest.URL(t), func(*url.URL, url.Values) {}), postgres.Options{Schema: schema, OldKeys: [][]byte{anotherKey}}, postgres.ErrKey)
	sqltest.Have(t, open(t, schema, postgres.Options{Key: anotherKey}), "sub_1", "sub_2")
}
