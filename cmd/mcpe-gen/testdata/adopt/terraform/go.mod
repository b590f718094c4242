module example.com/registry

go 1.25.0

require (
	github.com/mark3labs/mcp-go v1.2.1
	github.com/sirupsen/logrus v1.9.3
)
