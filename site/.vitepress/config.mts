// The site of docs: `make site` builds it with VitePress's own theme, search and dark mode. README.md of the repository is its home;
// the sidebar and llms.txt come from docs/README.md.
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { defineConfig } from 'vitepress'

const root = process.cwd() // make runs in the repository
const docs = join(root, 'docs')
const github = 'https://github.com/mcpe-gen/mcpe-gen'
const home = 'https://mcpe-gen.github.io'
const base = '/mcpe-gen/'

// Pages for maintainers, which GitHub shows better: one draws with Mermaid.
const elsewhere = ['architecture.md', 'packages.md', 'extending.md', 'proposals/**', 'testdata/**']
const leftOut = (page: string) => elsewhere.includes(page) || page.startsWith('proposals/') || page.startsWith('testdata/')

// The sections of docs/README.md with their pages, one a bullet: - [Title](page.md): what it has.
const sections: { title: string; pages: { title: string; page: string; about: string }[] }[] = []
for (const line of readFileSync(join(docs, 'README.md'), 'utf8').split('\n')) {
  const heading = line.match(/^## (.+)$/)
  const bullet = line.match(/^- \[([^\]]+)\]\(([^):#]+\.md)\)(?:: (.*))?$/)
  if (heading) sections.push({ title: heading[1], pages: [] })
  else if (bullet) sections.at(-1)!.pages.push({ title: bullet[1], page: bullet[2], about: bullet[3] ?? '' })
}

// onGitHub is the URL of what a page links to and the site has not; undefined for what the site has.
function onGitHub(page: string, href: string): string | undefined {
  if (/^([a-z]+:|#|\/)/.test(href)) return
  const [path, anchor] = href.split('#')
  const target = posix.normalize(posix.join('docs', dirname(page), path))
  const inside = target.startsWith('docs/') && !leftOut(target.slice(5)) && /\.(md|png)$/.test(target)
  if (inside) return
  const kind = existsSync(join(root, target)) && statSync(join(root, target)).isDirectory() ? 'tree' : 'blob'
  return `${github}/${kind}/main/${target}${anchor ? '#' + anchor : ''}`
}

export default defineConfig({
  title: 'mcpe-gen',
  description: 'Typed events for MCP servers, clients and agents in Go',
  lang: 'en',
  base,
  srcDir: 'docs', // which make copies beside this, since pages find Vue from where they are
  srcExclude: elsewhere,
  rewrites: { 'README.md': 'pages.md' },
  cleanUrls: true,
  markdown: {
    // Anchors are GitHub's, so that a link holds in both places; docs/links_test.go checks them.
    anchor: { slugify: text => text.toLowerCase().replace(/ /g, '-').replace(/[^\p{L}\p{N}_-]/gu, '') },
    config(md) {
      md.core.ruler.push('github', state => {
        for (const token of state.tokens) {
          if (token.type === 'fence' && token.info === '' && /^\$ /m.test(token.content)) token.info = 'console'
        }
        for (const token of state.tokens.flatMap(t => t.children ?? [])) {
          if (token.type !== 'link_open') continue
          const url = onGitHub(state.env.relativePath ?? '', token.attrGet('href') ?? '')
          if (url) token.attrSet('href', url)
        }
      })
    },
  },
  // The first paragraph of a page describes it, to search engines and where a link to it is shown.
  transformPageData(page) {
    const text = readFileSync(join(docs, '..', page.filePath === 'index.md' ? 'README.md' : join('docs', page.filePath)), 'utf8')
    const paragraph = text.split(/\n\s*\n/).find(p => /^[*A-Za-z]/.test(p)) ?? ''
    page.description = paragraph.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1').replace(/[*`]/g, '').replace(/\s+/g, ' ').slice(0, 200)
    const image = `${home}${base}console-overview.png`
    page.frontmatter.head = [['og:title', page.title], ['og:description', page.description], ['og:type', 'website'], ['og:image', image]]
      .map(([property, content]) => ['meta', { property, content }])
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: sections.map(s => ({
      text: s.title,
      collapsed: false,
      items: s.pages.map(p => ({ text: p.title, link: onGitHub('README.md', p.page) ?? '/' + p.page.replace(/\.md$/, '') })),
    })),
    socialLinks: [{ icon: 'github', link: github }],
    editLink: { pattern: `${github}/edit/main/docs/:path`, text: 'Edit this page on GitHub' },
  },
  // For programs that read: https://llmstxt.org, and every page as it was written.
  buildEnd(site) {
    const lines = ['# mcpe-gen', '', `> ${site.site.description}`]
    for (const s of sections) {
      lines.push('', `## ${s.title}`, '')
      for (const p of s.pages) {
        const url = onGitHub('README.md', p.page) ?? home + base + p.page
        if (!leftOut(p.page)) cpSync(join(docs, p.page), join(site.outDir, p.page))
        lines.push(`- [${p.title}](${url})${p.about ? ': ' + p.about.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1') : ''}`)
      }
    }
    cpSync(join(docs, 'images', 'console-overview.png'), join(site.outDir, 'console-overview.png'))
    writeFileSync(join(site.outDir, 'llms.txt'), lines.join('\n') + '\n')
  },
})
