// The page that shows a desktop: opens its screen, says where it stands, and comes back by itself where it may.
import { type ScreenNote, screenProtocol, ticketKept } from '@dormouse/contract/screens'
import RFB from '@novnc/novnc'
import { Clipboard } from './clipboard.ts'
import { courseAfter, type PageState, wordsOf } from './course.ts'
import { offerFullScreen } from './full-screen.ts'
import { Keyring } from './keyring.ts'
import { pasteAsWritten, whenAble } from './paste.ts'
import { watchSilence } from './silence.ts'
import { openWayOut } from './way-out.ts'

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T

const claim = location.pathname.endsWith('/control') ? 'control' : 'view'
const desktopId = location.pathname.split('/')[2] ?? ''
const keyring = new Keyring(location, history, sessionStorage)
/** What a browser says of a socket whose end nobody told. */
const brokenOff = 1006
let rfb: RFB | undefined
let darkSince = performance.now()
let attempts = 0

document.body.dataset.claim = claim
find('badge').textContent = claim === 'control' ? 'Control' : 'View only'
const toDesktop = () => rfb?.focus()
const clipboard =
  claim === 'control'
    ? new Clipboard({
        button: find('clipboard'),
        panel: find('clipboard-panel'),
        text: find('clipboard-text'),
        tooLong: find('clipboard-too-long'),
        paste: (text) => rfb?.clipboardPasteFrom(text),
        closed: toDesktop,
      })
    : undefined

offerFullScreen({ button: find('full-screen'), takesKeys: claim === 'control', back: toDesktop })
openWayOut({ bar: find('bar'), back: toDesktop })
pasteAsWritten(RFB.messages)
whenAble(RFB.messages, () => clipboard?.sendAgain())
open()

function open(): void {
  const key = keyring.key
  if (key === undefined) {
    show('ended')
    return
  }
  if (document.body.dataset.state === 'connecting') show('connecting')
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${location.pathname}/${key}`, [screenProtocol])
  keepTickets(socket)
  socket.addEventListener('close', closed)
  const screen = screenOver(socket)
  rfb = screen
  watchSilence(socket, () => {
    // Its end would be told much later, when another may be open.
    socket.removeEventListener('close', closed)
    screen.disconnect()
    closed({ code: brokenOff, reason: '' })
  })
}

function keepTickets(socket: WebSocket): void {
  socket.addEventListener('message', ({ data }) => {
    if (typeof data !== 'string') return
    const note = JSON.parse(data) as ScreenNote
    if (!('ticket' in note)) return
    keyring.keep(note.ticket)
    socket.send(ticketKept)
  })
}

function screenOver(socket: WebSocket): RFB {
  const screen = new RFB(find('screen'), socket, { shared: true })
  screen.viewOnly = claim === 'view'
  screen.scaleViewport = true
  screen.focusOnClick = true
  screen.showDotCursor = claim === 'control'
  screen.background = 'transparent'
  screen.addEventListener('connect', () => {
    attempts = 0
    show('live')
    screen.focus()
  })
  screen.addEventListener('clipboard', ({ detail }) => clipboard?.receive(detail.text))
  return screen
}

function closed({ code, reason }: Pick<CloseEvent, 'code' | 'reason'>): void {
  rfb = undefined
  if (document.body.dataset.state === 'live') darkSince = performance.now()
  const darkForMs = performance.now() - darkSince
  const { state, againInMs } = courseAfter({ code, reason, darkForMs, attempts, hasTicket: keyring.key !== undefined })
  attempts++
  show(state, reason)
  if (againInMs !== undefined) setTimeout(open, againInMs)
  else keyring.drop()
}

/** Says where the page stands, in the bar, over the screen and in the window's title. */
function show(state: PageState, reason = ''): void {
  const { short, title, text, todo, command } = wordsOf(state, { desktopId, claim, reason })
  document.body.dataset.state = state
  document.title = `${short} · desktop ${desktopId}`
  find('state').textContent = short
  find('notice').hidden = title === ''
  clipboard?.enable(state === 'live')
  for (const [part, words] of Object.entries({ title, text, todo, command })) {
    const line = find(`notice-${part}`)
    line.replaceChildren(...(part === 'command' ? unbroken(words) : [words]))
    line.hidden = words === ''
  }
}

/** A command goes to the next line between its words: one that is broken at a hyphen reads as two. */
function unbroken(command: string): (Node | string)[] {
  return command.split(' ').flatMap((word, i) => {
    const part = document.createElement('span')
    part.textContent = word
    return i === 0 ? [part] : [' ', part]
  })
}
