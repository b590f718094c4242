package task_test

import (
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

func ExampleParse() {
	m, ok, err := task.Parse(`{"session_id":"s1","task_id":"t1","tool_name":"report","result":{"percent":40},"event":"update","type":"task","protocol":"mcpc"}`)
	fmt.Println(m.TaskID, m.Event, string(m.Result), ok, err)
	_, ok, err = task.Parse("an ordinary answer")
	fmt.Println(ok, err)
	// Output:
	// t1 update {"percent":40} true <nil>
	// false <nil>
}
