package sqlite_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestSchedules(t *testing.T) {
	storetest.TestSchedules(t, func(t *testing.T) store.ScheduleStore { return fresh(t) })
}
