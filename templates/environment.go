package templates

// A Variable is an environment variable that a scaffold's program reads.
type Variable struct {
	Name string
	// Example is a sample value. About describes the variable.
	Example, About string
	// Needed reports whether the program needs the variable to start.
	Needed bool
}

// Variables returns the environment variables that the program reads.
func (s Scaffold) Variables() (all []Variable) {
	if s.From != nil {
		all = append(all, Variable{s.From.Env(), s.From.Secret(), "what the webhooks are signed with", true})
	}
	if s.Upstream != nil {
		all = append(all, Variable{"EMIT_TOKEN", "CHANGE-THIS-LONG-SECRET", "the token with which the MCP server emits", true},
			Variable{Name: "UPSTREAM_URL", About: "the MCP server behind the gateway"})
	}
	if s.Store == "postgres" {
		all = append(all, Variable{"DATABASE_URL", "postgres://localhost/postgres", "a database in which it may create the schema mcpe", true})
	}
	if s.Store == "jetstream" {
		all = append(all, Variable{"NATS_URL", "nats://127.0.0.1:4222", "the nats-servers", true},
			Variable{Name: "NATS_MONITORS", About: "their monitoring URLs, separated by commas"},
			Variable{Name: "NATS_SINGLE", About: "whether one nats-server is enough, for development"})
	}
	if s.Auth == "oauth" {
		all = append(all, Variable{"OAUTH_RESOURCE", "http://127.0.0.1:8080" + s.Path(), "the public URL of " + s.Path() + ", the audience of tokens", true},
			Variable{"OAUTH_ISSUER", "https://id.example.com", "your authorization server", true},
			Variable{"OAUTH_INTROSPECTION", "https://id.example.com/introspect", "its introspection endpoint (RFC 7662)", true},
			Variable{Name: "OAUTH_CLIENT_ID", About: "the client id for introspection"}, Variable{Name: "OAUTH_CLIENT_SECRET", About: "the client secret for introspection"})
	}
	if s.Webhooks && s.Store != "memory" {
		all = append(all, Variable{Name: "EVENTS_KEY", About: "what secrets are encrypted with in the store"})
	}
	if s.Console {
		all = append(all, Variable{Name: "OPERATOR_TOKEN", About: "what operators come with"})
	}
	if s.Metrics == "otlp" {
		all = append(all, Variable{Name: "OTEL_EXPORTER_OTLP_ENDPOINT", About: "the OpenTelemetry collector"})
	}
	return all
}

// Exports returns a shell command for each needed variable, which sets the variable.
func (s Scaffold) Exports() (lines []string) {
	for _, v := range s.Variables() {
		if v.Needed {
			lines = append(lines, "export "+v.Name+"="+v.Example)
		}
	}
	return lines
}

// Secret returns a sample secret for signing the service's webhooks.
func (f From) Secret() string {
	if f.Service == "standard-webhooks" {
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	}
	return "LONG-SECRET"
}
