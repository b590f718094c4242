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

// notifyTimeout is how long a notification may take.
const notifyTimeout = 3 * time.Second

// checkNotifications checks whether a second connection receives notifications from the first. It needs two connections
// because a pooler in transaction mode may use one server connection for both statements of a client. That client would
// then receive its own notification.
func (p *checker) checkNotifications(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) {
	const check = "notifications"
	switch err := tryNotification(ctx, conn, config); {
	case err == nil:
		p.Add(checkup.OK, check, "LISTEN receives notifications", "")
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		p.Add(checkup.Warn, check, "LISTEN receives no notifications: the connection goes through a pooler in transaction mode",
			"set Options.Pooled, and Options.Listen to a connection string that leads to the server itself: otherwise a server sees the appends of others every Options.Poll only")
	default:
		p.Add(checkup.Warn, check, fmt.Sprintf("unknown: %v", err), "let the role make a second connection to the primary")
	}
}

// tryNotification returns nil if a second connection receives a notification from the first.
func tryNotification(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig) error {
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
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err = second.WaitForNotification(ctx)
	return err
}
