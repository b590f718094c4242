module example.com/todos

go 1.26.0

require (
	github.com/mcpe-gen/mcpe-gen v0.0.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
)

replace github.com/mcpe-gen/mcpe-gen => ../../../../../..
