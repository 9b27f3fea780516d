// A page in the browser of a desktop: what is typed into it, and what the mouse does on it, is sent to a server beside it.
import type { Desktop, Exec } from '@dormouse/client'
import { waitFor } from '../../wait-for.ts'

/** What a page has heard of the mouse, in pixels of the screen. */
export interface Heard {
  type: 'mousedown' | 'mouseup' | 'dblclick'
  x: number
  y: number
  /** How many times it was clicked there in a row. */
  detail: number
}

/** Ctrl and Enter send what was typed. A Tab is a character, as in an editor of code. */
const html = `<!doctype html><meta charset="utf-8"><title>Page</title>
<style>body { margin: 0 } textarea { position: fixed; inset: 20% 0 0 0; width: 100%; border: 0; resize: none }</style>
<textarea autofocus spellcheck="false"></textarea>
<script>
  const box = document.querySelector('textarea')
  const send = (what, body) => fetch('/' + what, { method: 'POST', body })
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Tab') box.setRangeText('\\t', box.selectionStart, box.selectionEnd, 'end')
    else if (event.key === 'Enter' && event.ctrlKey) send('typed', box.value).then(() => (box.value = ''))
    else return
    event.preventDefault()
  })
  const heard = []
  for (const type of ['mousedown', 'mouseup', 'dblclick'])
    addEventListener(type, ({ screenX: x, screenY: y, detail }) => heard.push({ type, x, y, detail }))
  addEventListener('keydown', ({ key }) => key === 'F8' && send('heard', JSON.stringify(heard.splice(0))))
  // The second frame begins when the first one is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => send('shown', '')))
</script>`

/** Returns the page, and prints each message as one line. */
const server = `import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('content-type', 'text/html')
        self.end_headers()
        with open('page.html', 'rb') as page: self.wfile.write(page.read())
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length'])).decode()
        self.send_response(204)
        self.end_headers()
        print(json.dumps([self.path[1:], body]), flush=True)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler).serve_forever()
`

type Message = [what: 'shown' | 'typed' | 'heard', body: string]

export class BrowserPage implements AsyncDisposable {
  readonly #desktop: Desktop
  #server: Exec | undefined
  #lines = ''
  #read = 0

  private constructor(desktop: Desktop) {
    this.#desktop = desktop
  }

  /** Fills the screen, and has the keyboard. */
  static async open(desktop: Desktop): Promise<BrowserPage> {
    const page = new BrowserPage(desktop)
    await desktop.files.write('/srv/page/page.html', html)
    await desktop.files.write('/srv/page/server.py', server)
    page.#server = await desktop.commands.start('exec python3 server.py', {
      cwd: '/srv/page',
      onStdout: (text) => {
        page.#lines += text
      },
    })
    await desktop.launch(['x-www-browser', '--kiosk', 'http://127.0.0.1:8000/'])
    await page.#next('shown')
    await desktop.takeScreenshot({ wait: 'settled', quietMs: 2_000, maxMs: 30_000 })
    return page
  }

  /** Types this in batches that are all done, and returns what has arrived. */
  async type(text: string): Promise<string> {
    const { outcome, reason } = await this.#desktop.write(text)
    if (outcome !== 'done') throw new Error(`typing was ${outcome}: ${reason}`)
    await this.#desktop.press(['Control', 'Enter'])
    return this.#next('typed')
  }

  /** What the mouse has done since the last time. */
  async heard(): Promise<Heard[]> {
    await this.#desktop.press('F8')
    return JSON.parse(await this.#next('heard')) as Heard[]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server?.kill()
  }

  /** The body of the next message, which must be of this kind. */
  async #next(what: Message[0]): Promise<string> {
    const line = await waitFor(
      `the page's message "${what}"`,
      () => this.#lines.split('\n').slice(0, -1)[this.#read],
      300_000,
    )
    this.#read++
    const [kind, body] = JSON.parse(line) as Message
    if (kind !== what) throw new Error(`the page has sent "${kind}" instead of "${what}": ${body}`)
    return body
  }
}
