package templates

// A Variable is one of the environment that the program of a scaffold reads.
type Variable struct {
	Name string
	// Example is a value that can stand in its place, and About what it is.
	Example, About string
	// Needed tells that the program does not start without it.
	Needed bool
}

// Variables are those that the program reads.
func (s Scaffold) Variables() (all []Variable) {
	if s.From != nil {
		all = append(all, Variable{s.From.Env(), s.From.Secret(), "what the webhooks are signed with", true})
	}
	if s.Store == "postgres" {
		all = append(all, Variable{"DATABASE_URL", "postgres://localhost/postgres", "a database in which it may make the schema mcpe", true})
	}
	if s.Store == "jetstream" {
		all = append(all, Variable{"NATS_URL", "nats://127.0.0.1:4222", "the nats-servers", true},
			Variable{Name: "NATS_MONITORS", About: "the URLs of their monitoring, with commas between them"},
			Variable{Name: "NATS_SINGLE", About: "whether one nats-server is enough, for development"})
	}
	if s.Auth == "oauth" {
		all = append(all, Variable{"OAUTH_RESOURCE", "http://127.0.0.1:8080/mcp", "the public URL of /mcp, which tokens are made for", true},
			Variable{"OAUTH_ISSUER", "https://id.example.com", "your authorization server", true},
			Variable{"OAUTH_INTROSPECTION", "https://id.example.com/introspect", "its introspection endpoint (RFC 7662)", true},
			Variable{Name: "OAUTH_CLIENT_ID", About: "who asks there"}, Variable{Name: "OAUTH_CLIENT_SECRET", About: "the secret of who asks there"})
	}
	if s.Webhooks && s.Store != "memory" {
		all = append(all, Variable{Name: "EVENTS_KEY", About: "what secrets are encrypted with in the store"})
	}
	if s.Console {
		all = append(all, Variable{Name: "OPERATOR_TOKEN", About: "what operators come with"})
	}
	return all
}

// Exports are commands for a shell that set what the program needs, one a variable.
func (s Scaffold) Exports() (lines []string) {
	for _, v := range s.Variables() {
		if v.Needed {
			lines = append(lines, "export "+v.Name+"="+v.Example)
		}
	}
	return lines
}

// Secret is one that the webhooks of the service could be signed with.
func (f From) Secret() string {
	if f.Service == "standard-webhooks" {
		return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	}
	return "LONG-SECRET"
}
