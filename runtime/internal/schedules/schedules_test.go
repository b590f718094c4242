package schedules_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/schedules"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
)

func TestSchedules(t *testing.T) {
	enginetest.TestSchedules(t, func(*testing.T) engine.Schedules { return schedules.New() })
}
