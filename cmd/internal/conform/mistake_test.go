package conform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// TestMistake signs a delivery by the usual mistakes, which are named (HOOK-2).
func TestMistake(t *testing.T) {
	t.Parallel()
	secret := randomSecret(secretSize)
	text := strings.TrimPrefix(secret, wire.SecretPrefix)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"b": 1, "a": 2}`
	at := time.Now().Unix()
	whole := fmt.Sprintf("evt_1.%d.%s", at, body)
	for name, tt := range map[string]struct {
		key, content, time string
		encode             func([]byte) string
		says               string
	}{
		"right":         {key: string(raw), content: whole},
		"prefix":        {key: secret, content: whole, says: "no signature matches; the key is the text of the secret, whsec_ included"},
		"text":          {key: text, content: whole, says: "no signature matches; the key is the text after whsec_, not decoded"},
		"body":          {key: string(raw), content: body, says: "no signature matches; only the body is signed"},
		"order":         {key: string(raw), content: fmt.Sprintf("%d.evt_1.%s", at, body), says: "no signature matches; the time is signed before the id"},
		"serialization": {key: string(raw), content: fmt.Sprintf(`evt_1.%d.{"a":2,"b":1}`, at), says: "no signature matches; another serialization of the body is signed"},
		"hex":           {key: string(raw), content: whole, encode: hex.EncodeToString, says: "the signature is hex"},
		"url":           {key: text, content: whole, encode: base64.URLEncoding.EncodeToString, says: "the key is the text after whsec_, not decoded"},
		"milliseconds":  {key: string(raw), content: fmt.Sprintf("evt_1.%d000.%s", at, body), time: fmt.Sprintf("%d000", at), says: "the time is in milliseconds"},
		"another":       {key: "another", content: whole, says: "no signature matches"},
	} {
		mac := hmac.New(sha256.New, []byte(tt.key))
		mac.Write([]byte(tt.content))
		if tt.encode == nil {
			tt.encode = base64.StdEncoding.EncodeToString
		}
		if tt.time == "" {
			tt.time = fmt.Sprint(at)
		}
		h := http.Header{}
		h.Set(wire.HeaderWebhookID, "evt_1")
		h.Set(wire.HeaderWebhookTimestamp, tt.time)
		h.Set(wire.HeaderWebhookSignature, "v1,"+tt.encode(mac.Sum(nil)))
		err := post{header: h, body: []byte(body)}.verify(secret)
		if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) || name == "another" && strings.Contains(err.Error(), ";") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
