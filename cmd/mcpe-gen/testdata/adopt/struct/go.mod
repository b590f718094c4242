module example.com/tickets

go 1.25.0

require github.com/modelcontextprotocol/go-sdk v1.8.0
