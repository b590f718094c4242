package memory_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func TestSchedules(t *testing.T) {
	enginetest.TestSchedules(t, func(*testing.T) engine.Schedules { return memory.NewSchedules() })
}
