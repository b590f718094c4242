package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
)

// hearTime bounds how long a notification may take.
const hearTime = 3 * time.Second

// notifications looks whether a second connection hears what the first one notifies. It takes two: a pooler in
// transaction mode may use one connection of the server for both statements of a client, which then hears itself.
func (p *patient) notifications(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) {
	const check = "notifications"
	switch err := heard(ctx, conn, config); {
	case err == nil:
		p.Add(checkup.OK, check, "LISTEN hears NOTIFY", "")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		p.Add(checkup.Warn, check, "LISTEN hears nothing: the connection leads through a pooler in transaction mode",
			"set Options.Pooled, and Options.Listen to a connection string that leads to the server itself: otherwise a server sees the appends of others every Options.Poll only")
	default:
		p.Add(checkup.Warn, check, fmt.Sprintf("unknown: %v", err), "let the role make a second connection to the primary")
	}
}

// heard returns nil when a second connection hears a notification of the first.
func heard(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) error {
	second, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer second.Close(context.WithoutCancel(ctx))
	channel := "mcpe_doctor_" + rand.Text()
	if _, err := second.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hearTime)
	defer cancel()
	_, err = second.WaitForNotification(ctx)
	return err
}
