package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// An input contains the parts of an inputSchema that are needed to parse and describe arguments.
type input struct {
	Ref        string           `json:"$ref"`
	Type       any              `json:"type"`
	Enum       []any            `json:"enum"`
	Properties map[string]input `json:"properties"`
	Required   []string         `json:"required"`
	Defs       map[string]input `json:"$defs"`
	Old        map[string]input `json:"definitions"`
}

func (in input) resolve(root input) input {
	for range 10 {
		pointer, _ := url.PathUnescape(in.Ref)
		switch name := schematree.LastToken(in.Ref); {
		case strings.HasPrefix(pointer, "#/$defs/"):
			in = root.Defs[name]
		case strings.HasPrefix(pointer, "#/definitions/"):
			in = root.Old[name]
		default:
			return in
		}
	}
	return in
}

// typesOf returns the JSON types that an argument may have, or nil if the schema does not restrict them.
func (in input) typesOf() []string {
	switch t := in.Type.(type) {
	case string:
		return []string{t}
	case []any:
		var list []string
		for _, v := range t {
			if s, ok := v.(string); ok {
				list = append(list, s)
			}
		}
		return list
	}
	return nil
}

// CheckPairs returns an error unless all arguments have the form KEY=VALUE.
func CheckPairs(pairs []string) error {
	for _, a := range pairs {
		if key, _, ok := strings.Cut(a, "="); !ok || key == "" {
			return fmt.Errorf("--arg %s: must be KEY=VALUE", a)
		}
	}
	return nil
}

// Arguments converts KEY=VALUE pairs to JSON arguments with the types of the schema. Repeated keys form an array. It
// returns an error for arguments that do not match the schema, to explain mistakes before a request is sent.
func Arguments(pairs []string, schema json.RawMessage) (json.RawMessage, error) {
	var root input
	// If the schema is unusual, fewer mistakes are detected here. The server decides.
	_ = json.Unmarshal(schema, &root)
	keys, values := []string{}, map[string][]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		if values[k] == nil {
			keys = append(keys, k)
		}
		values[k] = append(values[k], v)
	}
	args := map[string]json.RawMessage{}
	for _, k := range keys {
		in := root.resolve(root).Properties[k].resolve(root)
		raw, err := encodeArgument(in, values[k])
		if err != nil {
			return nil, fmt.Errorf("--arg %s=%s: %v", k, values[k][0], err)
		}
		args[k] = raw
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	s, err := validate.Compile(schema)
	if err != nil {
		return raw, nil
	}
	if bad, ok := errors.AsType[*validate.Error](s.Validate(raw)); ok {
		var parts []string
		for _, f := range bad.Fields {
			parts = append(parts, plain.Text(strings.TrimSpace(f.Path+" "+f.Message)))
		}
		return nil, fmt.Errorf("the arguments are not valid: %s; it takes %s", strings.Join(parts, "; "), DescribeArguments(schema))
	}
	return raw, nil
}

// encodeArgument returns a single argument encoded as JSON.
func encodeArgument(in input, values []string) (json.RawMessage, error) {
	types := in.typesOf()
	if slices.Contains(types, "array") && (len(values) > 1 || !strings.HasPrefix(strings.TrimSpace(values[0]), "[")) {
		return json.Marshal(values)
	}
	if len(values) > 1 {
		return nil, fmt.Errorf("given %d times, but it is not an array", len(values))
	}
	v := values[0]
	if len(types) == 0 || slices.Contains(types, "string") {
		if slices.Contains(types, "null") && v == "null" {
			return json.RawMessage(v), nil
		}
		return json.Marshal(v)
	}
	if !json.Valid([]byte(v)) {
		return nil, fmt.Errorf("not a JSON %s", strings.Join(types, " or "))
	}
	return json.RawMessage(v), nil
}

// DescribeArguments lists the arguments of a schema, as in severity=P1|P2, service=string. It marks required arguments.
func DescribeArguments(schema json.RawMessage) string {
	var root input
	if json.Unmarshal(schema, &root) != nil || len(root.resolve(root).Properties) == 0 {
		return "no arguments"
	}
	top := root.resolve(root)
	var list []string
	for name, in := range top.Properties {
		in = in.resolve(root)
		kind := strings.Join(in.typesOf(), "|")
		if len(in.Enum) > 0 {
			var values []string
			for _, v := range in.Enum {
				values = append(values, fmt.Sprint(v))
			}
			kind = strings.Join(values, "|")
		}
		if kind == "" {
			kind = "value"
		}
		text := plain.Text(name + "=" + kind)
		if slices.Contains(top.Required, name) {
			text += " (required)"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
