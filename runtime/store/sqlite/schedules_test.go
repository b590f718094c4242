package sqlite_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
)

func TestSchedules(t *testing.T) {
	enginetest.TestSchedules(t, func(t *testing.T) engine.Schedules { return fresh(t) })
}
