package config

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

//go:embed config.schema.json
var configSchema string

// words lists the words that stand for a list in config.schema.json.
var words = map[string][]string{
	"LINT CATEGORIES": lint.Categories, "LINT RULES": rule.IDs(lint.Rules()), "BREAKING CATEGORIES": breaking.Categories, "BREAKING RULES": rule.IDs(breaking.Rules()),
	"EMITS": Emits, "TYPESCRIPT PARTS": typescript.Parts,
}

// ConfigSchema returns the JSON Schema (2020-12) of mcpe.yaml, for editors and for [Load]. It rejects files of the wrong
// form.
func ConfigSchema() []byte {
	text := configSchema
	for word, list := range words {
		text = strings.ReplaceAll(text, `"`+word+`"`, `"`+strings.Join(list, `", "`)+`"`)
	}
	return []byte(text)
}

// formOf returns the form of mcpe.yaml.
var formOf = sync.OnceValue(func() *form.Form { return form.New(ConfigSchema(), nil) })
