package memory_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestSchedules(t *testing.T) {
	storetest.TestSchedules(t, func(*testing.T) store.ScheduleStore { return memory.NewSchedules() })
}
