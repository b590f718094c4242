// Writes ../unicode.txt: what package unicode of Go does not know of the properties that ECMA-262
// names, taken from a JavaScript engine. The names of Go's scripts come in on standard input.
//
//   node unicode.mjs < scripts.txt > ../unicode.txt
import fs from 'node:fs'

const last = 0x10FFFF
const spans = test => {
  const out = []
  let start = -1
  for (let c = 0; c <= last + 1; c++) {
    const yes = c <= last && test(String.fromCodePoint(c))
    if (yes && start < 0) start = c
    if (!yes && start >= 0) { out.push([start, c - 1]); start = -1 }
  }
  return out
}
// Each range is the distance from the end of the one before and, after a dash, its length less one; base 36.
const encode = s => {
  let prev = 0
  return s.map(([a, b]) => { const t = (a - prev).toString(36) + (b > a ? '-' + (b - a).toString(36) : ''); prev = b; return t }).join(' ')
}
const regexp = p => new RegExp(`^\\p{${p}}$`, 'u')
const of = p => { const r = regexp(p); return spans(s => r.test(s)) }

console.log(`# Unicode ${process.versions.unicode}. Copyright © 1991-2025 Unicode, Inc.; unicode.org/copyright.html. Made by testdata/unicode.mjs.`)
for (const p of ['Bidi_Mirrored', 'Case_Ignorable', 'Changes_When_Casefolded', 'Changes_When_Casemapped', 'Changes_When_Lowercased',
  'Changes_When_NFKC_Casefolded', 'Changes_When_Titlecased', 'Changes_When_Uppercased', 'Emoji', 'Emoji_Component', 'Emoji_Modifier',
  'Emoji_Modifier_Base', 'Emoji_Presentation', 'Extended_Pictographic']) console.log(`property ${p} ${encode(of(p))}`)

const scripts = fs.readFileSync(0, 'utf8').trim().split('\n')
const known = new Map(scripts.map(s => [encode(of('sc=' + s)), s]))
const letters = [...'abcdefghijklmnopqrstuvwxyz']
for (const a of letters) for (const b of letters) for (const c of letters) for (const d of letters) {
  const code = a.toUpperCase() + b + c + d
  let name
  try { name = known.get(encode(of('sc=' + code))) } catch { continue }
  if (name && name !== code) console.log(`script ${code} ${name}`)
}
for (const s of scripts) {
  const alone = regexp('sc=' + s), all = regexp('scx=' + s)
  const other = spans(c => alone.test(c) !== all.test(c))
  if (other.length) console.log(`extension ${s} ${encode(other)}`)
}
