// VitePress's theme. The copy button of a console block copies the commands, without prompts and output.
import DefaultTheme from 'vitepress/theme'

export default {
  extends: DefaultTheme,
  enhanceApp() {
    if (typeof window === 'undefined') return
    window.addEventListener('click', event => {
      const button = (event.target as Element).closest('.language-console > button.copy')
      if (!button) return
      event.stopPropagation()
      const lines = button.parentElement!.querySelector('pre code')!.textContent!.split('\n')
      navigator.clipboard.writeText(lines.filter(l => l.startsWith('$ ')).map(l => l.slice(2)).join('\n'))
      button.classList.add('copied')
      setTimeout(() => button.classList.remove('copied'), 2000)
    }, true)
  },
}
