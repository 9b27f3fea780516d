// An agent loop with a scripted model, without a network: it opens the browser on a page in the desktop, fills in a form,
// downloads a file and reads it back. npx node examples/form.ts [<id of an awake desktop>]
import { type AnthropicAction, Desktop, type Exec, fromAnthropic } from '@dormouse/client'

/** A model looks at the screen and says what to do next; undefined when it is done. Put a call of your model here. */
type Model = (screen: { mimeType: string; data: string }) => Promise<AnthropicAction | undefined>

const space = { width: 1280, height: 800 }
const began = performance.now()
const lap = (what: string) => console.log(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`)

const page = `<!doctype html><meta charset="utf-8"><title>Order</title>
<style>
  body { margin: 0; font: 24px sans-serif }
  input, button { display: block; width: 100%; height: 90px; margin: 0 0 10px; box-sizing: border-box; font: inherit }
</style>
<form><input name="name" placeholder="Name"><input name="text" placeholder="Greeting"><button>Download</button></form>
<script>
  document.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault()
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([JSON.stringify(Object.fromEntries(new FormData(event.target)))]))
    link.download = 'order.json'
    link.click()
  })
  // The second frame begins when the first one is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => fetch('/shown')))
</script>`

const script: AnthropicAction[] = [
  { action: 'left_click', coordinate: [640, 154] },
  { action: 'type', text: 'Ada Lovelace' },
  { action: 'key', text: 'Tab' },
  { action: 'type', text: 'Hello (a>b) & {x|y}' },
  { action: 'left_click', coordinate: [640, 354] },
]
const scripted: Model = async () => script.shift()

/** The loop of every agent: look, decide, act, until there is nothing left to do. */
async function work(desktop: Desktop, model: Model): Promise<void> {
  let { screenshot } = await desktop.input([{ type: 'screenshot' }], { screenshot: { fit: space.width } })
  for (let next = await model(screenshot!); next; next = await model(screenshot!)) {
    const options = { space, settle: true, screenshot: { fit: space.width } }
    const { outcome, reason, ...seen } = await desktop.input(fromAnthropic(next), options)
    if (outcome !== 'done') throw new Error(`${next.action}: ${outcome}, ${reason}`)
    screenshot = seen.screenshot ?? screenshot
    lap(`${next.action}; settled: ${seen.settled}`)
  }
}

/** Serves the page in the desktop, and opens the browser on it; returns the server when the page is on the screen. */
async function openPage(desktop: Desktop): Promise<Exec> {
  await desktop.files.write('/srv/order/index.html', page)
  let requests = ''
  const server = await desktop.commands.start('exec python3 -u -m http.server 8000 --bind 127.0.0.1', {
    cwd: '/srv/order',
    onStderr: (text) => {
      requests += text
    },
  })
  // A wake returns before its deadline, even if a slow host still starts the session.
  await desktop.commands.run('until [ -S /tmp/.X11-unix/X0 ]; do sleep 1; done', { timeoutMs: 300_000 })
  await desktop.launch(['x-www-browser', 'http://127.0.0.1:8000/'])
  while (!requests.includes('GET /shown')) {
    if ((await server.refresh()).state !== 'running') throw new Error(`the server of the page ended: ${requests}`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  return server
}

async function download(desktop: Desktop): Promise<string> {
  for (;;) {
    const text = await desktop.files.read('/home/user/Downloads/order.json').catch(() => '')
    if (text !== '') return text
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

const [, , id] = process.argv
const desktop = id ? await Desktop.connect(id) : await Desktop.create({ tier: 'default', imageVersion: 'desktop' })
if (!id) await desktop.wake()
lap('the desktop is awake')
const server = await openPage(desktop)
lap('the page is on the screen')
await work(desktop, scripted)
console.log(await download(desktop))
lap('the file is here')
await server.kill()
