package validate

import (
	"slices"
	"strings"
)

// The parameters of RFC 3492, section 5.
const (
	punyBase, punyMin, punyMax = 36, 1, 26
	punySkew, punyDamp         = 38, 700
	punyBias, punyFirst        = 72, 0x80
	punyLimit                  = 1 << 26
)

// punycode decodes a label behind its xn--, false when it is no encoding or not the one that the
// result has.
func punycode(text string) (string, bool) {
	out := []rune{}
	rest := text
	if i := strings.LastIndexByte(text, '-'); i >= 0 {
		out, rest = []rune(strings.ToLower(text[:i])), text[i+1:]
		if i == 0 || rest == "" {
			return "", false
		}
	}
	n, at, bias := rune(punyFirst), 0, punyBias
	for rest != "" {
		before, weight := at, 1
		for k := punyBase; ; k += punyBase {
			if rest == "" {
				return "", false
			}
			digit := punyValue(rest[0])
			rest = rest[1:]
			if digit < 0 || at > punyLimit || weight > punyLimit {
				return "", false
			}
			at += digit * weight
			t := min(max(k-bias, punyMin), punyMax)
			if digit < t {
				break
			}
			weight *= punyBase - t
		}
		bias = punyAdapt(at-before, len(out)+1, before == 0)
		n += rune(at / (len(out) + 1))
		at %= len(out) + 1
		if n > 0x10FFFF || n < punyFirst || 0xD800 <= n && n < 0xE000 {
			return "", false
		}
		out = slices.Insert(out, at, n)
		at++
	}
	return string(out), punyEncode(out) == strings.ToLower(text)
}

func punyValue(c byte) int {
	switch {
	case 'a' <= c && c <= 'z':
		return int(c - 'a')
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case '0' <= c && c <= '9':
		return int(c-'0') + 26
	}
	return -1
}

func punyAdapt(delta, points int, first bool) int {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > (punyBase-punyMin)*punyMax/2; k += punyBase {
		delta /= punyBase - punyMin
	}
	return k + (punyBase-punyMin+1)*delta/(delta+punySkew)
}

// punyEncode is the encoding of a label, without xn--.
func punyEncode(label []rune) string {
	var out []byte
	for _, r := range label {
		if r < punyFirst {
			out = append(out, byte(r))
		}
	}
	done := len(out)
	basic := done
	if basic > 0 {
		out = append(out, '-')
	}
	n, delta, bias := rune(punyFirst), 0, punyBias
	for done < len(label) {
		next := rune(0x10FFFF)
		for _, r := range label {
			if r >= n {
				next = min(next, r)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range label {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			q := delta
			for k := punyBase; ; k += punyBase {
				t := min(max(k-bias, punyMin), punyMax)
				if q < t {
					break
				}
				out = append(out, "abcdefghijklmnopqrstuvwxyz0123456789"[t+(q-t)%(punyBase-t)])
				q = (q - t) / (punyBase - t)
			}
			out = append(out, "abcdefghijklmnopqrstuvwxyz0123456789"[q])
			bias = punyAdapt(delta, done+1, done == basic)
			delta = 0
			done++
		}
		delta++
		n++
	}
	return string(out)
}

// punycodeLen is the number of octets that the encoding of a label has.
func punycodeLen(label []rune) int {
	if len(label) > maxLabel {
		return len(label)
	}
	return len(punyEncode(label))
}
