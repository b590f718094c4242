module example.com/dashboards

go 1.25.0

require github.com/mark3labs/mcp-go v1.2.1
