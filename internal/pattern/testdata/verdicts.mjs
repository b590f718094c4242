// Writes verdicts.json: what a JavaScript engine says, with the u flag, about many patterns and texts.
// Each line is a pattern, then null where it does not compile, else for each text of the first line
// 1 for a match and 0 for none. A pattern with texts of its own has them, with their verdicts, in a
// third place.
//
//   node verdicts.mjs > verdicts.json
let seed = 12345
const random = n => { seed = (Math.imul(seed, 1103515245) + 12345) >>> 0; return Math.floor(seed / 4294967296 * n) }
// No text has a code point beyond the first plane between two words: V8 then tries the middle of a surrogate pair.
const pick = list => list[random(list.length)]

const texts = ['', 'a', 'ab', 'aab', 'abab', 'ba', 'b', 'abc', 'A', '1', '_', '-', ' ', '\t', '\n', '\r', '\v', '\f', '\u00a0', '\ufeff',
  '\u2028', '\u0085', '\u180e', 'é', 'É', 'ß', 'ſ', 'K', 'İ', 'Ω', 'λ', 'Ж', '٣', '😀', '👍🏽', '😀y😀', '𝒳', 'a\nb', 'a.b', '[a]', '{1}', '$', '^', '\\', 'aa', 'aabaa',
  'abba', 'foo', 'FOO', 'foobar', '\u0000', '\u0007', '\ud7ff', '2024-2024', 'ab12', 'a b', 'x', 'xy', 'z:]']

const atoms = ['a', 'b', 'c', '.', '\\d', '\\D', '\\s', '\\S', '\\w', '\\W', '[ab]', '[^ab]', '[a-c]', '[^]', '[]', '[\\w-]', '[\\s\\S]', '\\b', '\\B',
  '^', '$', '\\.', '\\/', '\\u0041', '\\u{1F600}', '\\ud83d\\ude00', '\\x41', '\\cJ', '\\0', '\\n', '\\t', '\\v', '😀', '[😀-😂]', '\\p{L}', '\\p{Lu}',
  '\\P{L}', '\\p{Script=Greek}', '\\p{sc=Cyrl}', '\\p{scx=Deva}', '\\p{Emoji}', '\\p{ASCII}', '\\p{Any}', '\\p{Alphabetic}', '\\p{White_Space}', '\\p{Nd}',
  '[\\p{L}\\d]', '[^\\p{L}]', '[\\b]', '-', '[-a]', '[a-]', '[\\-a]', '\\1', '\\2', '\\k<n>', '(?=a)', '(?!b)', '(?<=a)', '(?<!b)', ']', '}', '{', '(?i)', '\\A',
  '\\z', '\\Q', '[[:alpha:]]', '\\_', '\\p{Greek}', '\\pL', '\\x4', '\\u00', '[a-\\d]', '[b-a]', '\\8', '\\07']
const good = atoms.indexOf('\\k<n>')
const marks = ['*', '+', '?', '*?', '+?', '??', '{2}', '{1,2}', '{0,1}?', '{1,}']
const make = depth => {
  const parts = []
  for (let n = 1 + random(3); n > 0; n--) {
    const form = depth > 0 ? random(10) : 9
    let part
    if (form === 0) part = '(' + make(depth - 1) + ')'
    else if (form === 1) part = '(?:' + make(depth - 1) + ')'
    else if (form === 2) part = '(?<n>' + make(depth - 1) + ')'
    else if (form === 3) part = pick(['(?=', '(?!', '(?<=', '(?<!']) + make(depth - 1) + ')'
    else if (form === 4) part = '(?:' + make(depth - 1) + '|' + make(depth - 1) + ')'
    else part = pick(random(40) ? atoms.slice(0, random(3) ? 24 : good) : atoms)
    const bare = /^(\(\?<?[=!]|\\b$|\\B$|\^$|\$$)/i.test(part)
    parts.push(part + (random(50) ? (bare || random(2) ? '' : pick(marks)) : pick(['{,2}', '{2,1}', '++', '**', '*'])))
  }
  return parts.join('')
}
const properties = ['Alphabetic', 'Alpha', 'ASCII', 'ASCII_Hex_Digit', 'AHex', 'Assigned', 'Bidi_C', 'Bidi_M', 'Case_Ignorable', 'Cased', 'CWCF', 'CWCM', 'CWKCF',
  'CWL', 'CWT', 'CWU', 'Dash', 'Default_Ignorable_Code_Point', 'Dep', 'Dia', 'Emoji', 'Emoji_Component', 'EMod', 'EBase', 'EPres', 'ExtPict', 'Ext', 'Gr_Base', 'Gr_Ext',
  'Hex', 'IDSB', 'IDST', 'IDC', 'IDS', 'Ideo', 'Join_C', 'LOE', 'Lower', 'Lowercase', 'Math', 'NChar', 'Pat_Syn', 'Pat_WS', 'QMark', 'Radical', 'RI', 'STerm', 'SD',
  'Term', 'UIdeo', 'Upper', 'VS', 'space', 'XIDC', 'XIDS', 'Any', 'C', 'Cc', 'Cf', 'Cn', 'Co', 'Cs', 'LC', 'Cased_Letter', 'Ll', 'Lm', 'Lo', 'Lt', 'Lu', 'M', 'Mc', 'Me',
  'Mn', 'N', 'Nd', 'Nl', 'No', 'P', 'Pc', 'Pd', 'Pe', 'Pf', 'Pi', 'Po', 'Ps', 'S', 'Sc', 'Sk', 'Sm', 'So', 'Z', 'Zl', 'Zp', 'Zs', 'punct', 'Punctuation', 'digit', 'cntrl',
  'Letter', 'gc=Lu', 'General_Category=Uppercase_Letter', 'sc=Greek', 'Script=Grek', 'scx=Grek', 'Script_Extensions=Latin', 'sc=Latn', 'sc=Zyyy', 'scx=Zyyy', 'sc=Zinh',
  'sc=Qaai', 'scx=Deva', 'scx=Hani', 'sc=Kana', 'scx=Kana', 'Greek', 'letter', 'lu', 'gc=Greek', 'sc=greek', 'Lowercase_Letter', 'L ', ' L', 'L=', '=L', 'Script', 'Other_Math',
  'InGreek', 'IsGreek', 'Latin', 'Hyphen', 'Combining_Mark', 'gc=L', 'gc=Combining_Mark', 'ID_Start', 'Emoji_Presentation', 'RGI_Emoji', 'Block=Latin', 'Script=', 'Zzzz']
// Code points that Unicode 15 has.
const points = [...'aZ09_ -$é£ßſKİΩλЖ٣अ中あア가😀👍🏽🇩𝒳ªʰⅣ½²‿⁀«»‐—\u00ad\u2028\u2029\u00a0\ufeff\u180e\u0300\u0345\u0903\u20e0\u061c\u0600\u1f88ﬁǅ〆々〇', '\u0378', '\ue000', '\ufdd0']

console.log(JSON.stringify(texts))
const line = (p, own) => {
  let re
  try { re = new RegExp(p, 'u') } catch { console.log(JSON.stringify([p, null])); return }
  if (own) console.log(JSON.stringify([p, '', own.map(t => [t, re.test(t) ? 1 : 0])]))
  else console.log(JSON.stringify([p, texts.map(t => re.test(t) ? 1 : 0).join('')]))
}
const seen = new Set()
for (const p of [...atoms, ...properties.flatMap(p => [`\\p{${p}}`, `\\P{${p}}`])]) seen.add(p)
for (const p of ['(?i)foo', '(?P<y>a)', '(?P=y)', "(?'n'a)", '(?#x)a', '(?>a)', '(?i:a)', '(?-i)a', '(?s).', '(?m)^a$', '\\Qa.b\\E', '\\Z', '\\h', '\\R', '\\K', '\\G', '\\e', '\\a',
  '[[:alpha:]', '[:alpha:]', '[[:alpha:][:digit:]]', '[a&&b]', '[a-z&&[^b]]', '[a--b]', '[]a]', '[^]a]', 'a]', 'a}', 'a{', 'a{1', 'a{1,', 'a{,1}', '{1}', 'x{1}{2}', 'a|*', '(',
  ')', '(?', '(?:', '(?<', '(?<n', '(?<n>', '(?<1>a)', '(?<$a_1>a)\\k<$a_1>', '(?<é>a)', '(?<a\\u0062>c)\\k<ab>', '(?<a>x)(?<a>y)', '(?<a>x)|(?<a>y)', '\\k<n>', '\\k', '(?<n>a)\\k',
  '\\1', '(a)\\1', '\\1(a)', '(a)\\2', '(?:(a)|b)*\\1$', '^(?:(a)|b)*\\1$', '^(a*)*b\\1$', '^(?:(a)|(b)|ab)*$', '(?<=(a)(b))', '(?<=\\1(a))', '(?<=(a)\\1)b', '(?<=a{2})b', '(?<=^|b)a',
  '(?<!^)a', '(?=(a))\\1b', '(?!(a))\\1b', '^(?=(a+))\\1b', '(z)((a+)?(b+)?(c))*', '^(?:a?)*?$', '^(?:a?)*$', '^(?:|a)+$', '^(?:|a)*$', '(?:){3}', '(?:^)*a', '(?:\\b)+a', '(?=a)*', '(?=a){2}a',
  '(?<=a)*', '^*', '\\b+', '$?', '^\\s$', '^.$', '^\\S$', '^\\w$', '^\\W$', '^\\d$', '^[^x]$', '^\\cA$', '\\c', '\\c1', '[\\c]', '\\u', '\\u{', '\\u{}', '\\u{110000}', '\\u{0000000041}', '\\ud83d',
  '^\\ud83d', '\\ude00', '^[\\ud83d\\ude00]$', '^[^\\ud83d]$', '\\x', '\\xg1', '[\\d-x]', '[x-\\d]', '[a-\\u{1F600}]', '[\\u{1F600}-a]', '\\p', '\\p{', '\\p{}', '\\P', '[\\p{L}-a]', '\\00', '\\0', '[\\1]', '[\\B]',
  '[\\k]', '\\,', '\\#', '\\ ', '\\"', "\\'", '\\é', '\\😀', '[\\-]', '[\\,]', '\\/', '[\\/]', '[/]', '/', 'a{1001}', 'a{0}', 'a{0,0}b', 'a{2147483648}', '(?:a{2}){2}', '^(?:(?:ab){2}|a)+$', '(?<n>a)(?<m>b)\\k<m>\\k<n>',
  '^(?!.*(.).*\\1)[a-z]+$', '^(?=.*\\d)(?=.*[a-z]).{4,}$', '^(?<year>\\d{4})-\\k<year>$', '(?:a|ab)(?:c|bcd)(?:d*)$', '((a)|(ab))((c)|(bc))', 'a[a-z]{2,4}?', '(a*)(b+)?', '(?=(a|ab)(b?))\\1\\2$', '(?<!(a)b)c', '(?<=([ab]+)([bc]+))$',
  '(?<=(\\w)+)b', '(?<=(?<a>\\w){3})', '^[\\w.+-]+@[\\w-]+\\.[\\w.-]+$', '[\\w-.]', '[.-\\w]', '[+-.]', '[%--]', '[---]', '[-]', '[^-]', '[^^]', '[\\^]', '[$]', '[\\$]', '\\v', '\\f', '^\\v$', '[\\v]', '\\$', '\\^', '(?<a>.)(?<b>.)\\k<b>\\k<a>',
  '^(?:(?=(a))b|a)*$', '(?:(x)|(y)|(z))*?$', '^(?:(a)|b)+?\\1$', '^(?:(?<n>a)|b){2}\\k<n>$', '(?:a*?){2,}?b', '(?:(a)?b)*', '^(?:(a)?b\\1)*$']) seen.add(p)
while (seen.size < 4000) seen.add(make(3))
const own = new Set(properties.flatMap(p => [`\\p{${p}}`, `\\P{${p}}`]))
for (const p of seen) line(p, own.has(p) ? points : undefined)
