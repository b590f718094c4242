package foreign_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/foreign"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

// Q7: what documents refer to in other files is read, each from the directory of its file, and each file once; what
// cannot be read is told at the reference, and only what needs it is left out.
func TestOtherFiles(t *testing.T) {
	files := map[string]string{
		"api/common/messages.yaml": "commentLiked:\n  payload: {$ref: '#/comment'}\ncomment:\n  type: object\n  properties:\n    id: {type: string}\n    by: {$ref: ../types/user.json}\n    more: {$ref: '#/comment'}\n    data: {type: string, default: {$ref: ./none.yaml}}\n",
		"api/types/user.json":      `{"type": "object", "properties": {"name": {"type": "string"}, "boss": {"$ref": "user.json"}}}`,
		"local/url.json":           `{"type": "object", "properties": {"mapped": {"type": "boolean"}}}`,
		"api/broken.yaml":          "a: [\n",
		"api/schemas.yaml":         "Paid:\n  type: object\n  properties:\n    default: {$ref: '#/Default'}\n    item: {$ref: 'types/user.json'}\n    url: {$ref: 'https://example.com/s/url.json'}\nDefault: {type: object, properties: {x: {type: integer, minimum: 0, maximum: 9}}}\n",
	}
	reads := map[string]int{}
	o := schema.Options{Refs: map[string]string{"https://example.com/s/": "local"}, ReadFile: func(path string) ([]byte, error) {
		reads[path]++
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}}
	for _, c := range []struct {
		name, text  string
		want, found []string
	}{
		{"asyncapi", "asyncapi: 3.0.0\nchannels:\n  comments:\n    messages:\n      commentLiked: {$ref: './common/messages.yaml#/commentLiked'}\n      gone: {$ref: './none.yaml#/a'}\n      away: {payload: {$ref: 'https://example.org/a.json'}}\n      broken: {payload: {$ref: broken.yaml}}\n",
			[]string{"- name: commentLiked\n", "$defs:\n", "user:\n", "boss: {$ref: '#/$defs/user'}", "more: {$ref: '#'}"},
			[]string{"api/doc.yaml:6:20: warning MCPE511: the reference to ./none.yaml#/a is not followed: file does not exist",
				"api/doc.yaml:7:30: warning MCPE511: the reference to https://example.org/a.json is not followed: nothing is fetched from the network; refs in mcpe.yaml can name a file for it",
				"message gone is left out", "message away is left out", "message broken is left out", "api/broken.yaml:1:5: error MCPE101"}},
		{"openapi", "openapi: 3.1.0\nwebhooks: {paid: {post: {requestBody: {content: {application/json: {schema: {$ref: 'schemas.yaml#/Paid'}}}}}}}\n",
			[]string{"- name: paid\n", "payloadSchema: {$ref: '#/schemas/Paid'}", "default: {$ref: '#/schemas/Default'}", "item: {$ref: '#/schemas/user'}", "url: {$ref: '#/schemas/url'}", "mapped: {type: boolean}"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(reads)
			doc, found := foreign.Read("api/doc.yaml", []byte(c.text), foreign.Options{Options: o})
			file, more, err := importer.Write(doc, importer.Options{})
			if err != nil {
				t.Fatal(err, found, more)
			}
			var all []string
			for _, d := range append(found, more...) {
				all = append(all, d.String())
			}
			for _, want := range c.want {
				if !strings.Contains(string(file), want) {
					t.Errorf("%q is not in\n%s", want, file)
				}
			}
			for _, want := range c.found {
				if !strings.Contains(strings.Join(all, "\n"), want) {
					t.Errorf("%q is not in\n%s", want, strings.Join(all, "\n"))
				}
			}
			if c.found == nil && len(all) > 0 {
				t.Errorf("found %s", strings.Join(all, "\n"))
			}
			for path, n := range reads {
				if n != 1 {
					t.Errorf("%s was read %d times", path, n)
				}
			}
		})
	}
}
