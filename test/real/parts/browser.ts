// A real browser that looks at pages, without a window. Knows nothing of what they show.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from 'playwright-core'

/** What the page says of itself. */
export type PageState =
  | 'connecting'
  | 'live'
  | 'reconnecting'
  | 'taken-over'
  | 'asleep'
  | 'waking'
  | 'destroyed'
  | 'ended'
  | 'lost'

const programs = ['/usr/bin/chromium', '/usr/bin/google-chrome']

/** Asks nobody, and leaves nothing behind. */
const args = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export class Browser {
  /** Addresses that pages asked for, the one of the page included. */
  readonly asked: string[] = []
  /** The referrers that requests named. */
  readonly referrers: string[] = []
  /** What pages complained of. */
  readonly complaints: string[] = []
  readonly #folder: string
  readonly #context: BrowserContext

  private constructor(folder: string, context: BrowserContext) {
    this.#folder = folder
    this.#context = context
  }

  static async start(): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-browser-'))
    const executablePath = programs.find((file) => existsSync(file))
    const viewport = { width: 1_000, height: 640 }
    const context = await chromium.launchPersistentContext(folder, {
      ...(executablePath && { executablePath }),
      headless: true,
      chromiumSandbox: false,
      args,
      viewport,
    })
    return new Browser(folder, context)
  }

  /** Opens an address in a tab of its own, which may be prepared before. */
  async open(url: string, prepare?: (page: Page) => unknown): Promise<Page> {
    const page = await this.#context.newPage()
    await page.addInitScript(rememberStates)
    page.on('request', (request) => {
      this.asked.push(request.url())
      const { referer } = request.headers()
      if (referer) this.referrers.push(referer)
    })
    page.on('websocket', (socket) => this.asked.push(socket.url()))
    page.on('pageerror', (error) => this.complaints.push(error.message))
    page.on('console', (message) => {
      // A socket that is refused or falls silent is part of what a page comes back from; a broken policy is not.
      if (message.type() === 'error' && !/WebSocket|Connection closed|Disconnection timed out/.test(message.text()))
        this.complaints.push(message.text())
    })
    await prepare?.(page)
    await page.goto(url)
    return page
  }

  /** Lets pages from there read and write the user's own clipboard, as long as it lasts. */
  async trust(origin: string): Promise<AsyncDisposable> {
    await this.#context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin })
    return { [Symbol.asyncDispose]: () => this.#context.clearPermissions() }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 })
  }
}

/** Waits until the page says so. */
export async function says(page: Page, state: PageState): Promise<void> {
  await page.waitForSelector(`body[data-state=${state}]`, { timeout: 60_000 })
}

const kept = join(import.meta.dirname, '../../../.dormouse-test/pictures')

/** Keeps a picture of the page, to be looked at. */
export async function keep(page: Page, name: string): Promise<void> {
  mkdirSync(kept, { recursive: true })
  await page.screenshot({ path: join(kept, `${name}.png`) })
}

/** Every state that the page has been in since it was loaded, also one that passed quickly. */
export function history(page: Page): Promise<PageState[]> {
  return page.evaluate('states') as Promise<PageState[]>
}

/** Runs in the page. */
const rememberStates = `
  globalThis.states = []
  new MutationObserver(() => states.push(document.body?.dataset.state))
    .observe(document, { subtree: true, attributes: true, attributeFilter: ['data-state'] })`
