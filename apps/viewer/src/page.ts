// The page that shows a desktop: opens its screen, shows its state, and reconnects if it may.
import { type EndNote, type ScreenNote, screenProtocol, ticketKept } from '@dormouse/contract/screens'
import RFB from '@novnc/novnc'
import { Clipboard } from './clipboard.ts'
import { onDeadConnection } from './dead-connection.ts'
import { offerFullScreen } from './full-screen.ts'
import { bindKeyboardExit } from './keyboard-exit.ts'
import { Keyring } from './keyring.ts'
import { linkOf } from './link.ts'
import { pasteAsWritten, whenAble } from './paste.ts'
import { type PageState, stateAfter, textOf } from './states.ts'

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T

const link = linkOf(location.pathname)
const { desktopId, claim } = link ?? { desktopId: '<id>', claim: 'view' }
const keyring = new Keyring(location, history, sessionStorage)
/** The browser's close code for a connection that was lost. */
const connectionLost = 1006
let rfb: RFB | undefined
let darkSince = performance.now()
let attempts = 0
/** From the service's last note on this socket. */
let end: EndNote['end'] | undefined

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
bindKeyboardExit({ bar: find('bar'), back: toDesktop })
pasteAsWritten(RFB.messages)
whenAble(RFB.messages, () => clipboard?.sendAgain())
open()

function open(): void {
  const key = keyring.key
  if (!link || key === undefined) {
    show('ended')
    return
  }
  if (document.body.dataset.state === 'connecting') show('connecting')
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${location.pathname}/${key}`, [screenProtocol])
  end = undefined
  readNotes(socket)
  socket.addEventListener('close', closed)
  const screen = screenOver(socket)
  rfb = screen
  onDeadConnection(socket, () => {
    // Its close event would come much later, when another socket may be open.
    socket.removeEventListener('close', closed)
    screen.disconnect()
    closed({ code: connectionLost })
  })
}

function readNotes(socket: WebSocket): void {
  socket.addEventListener('message', ({ data }) => {
    if (typeof data !== 'string') return
    const note = JSON.parse(data) as ScreenNote
    if ('end' in note) end = note.end
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

function closed({ code }: Pick<CloseEvent, 'code'>): void {
  rfb = undefined
  if (document.body.dataset.state === 'live') darkSince = performance.now()
  const darkForMs = performance.now() - darkSince
  const hasTicket = keyring.key !== undefined
  const { state, reconnectInMs } = stateAfter({ code, cause: end?.cause, darkForMs, attempts, hasTicket })
  attempts++
  show(state, end?.why)
  if (reconnectInMs === undefined) keyring.drop()
  else setTimeout(open, reconnectInMs)
}

/** Shows the state in the bar, over the screen and in the window's title. */
function show(state: PageState, why?: string): void {
  const { short, title, text, todo, command } = textOf(state, { desktopId, claim, why })
  document.body.dataset.state = state
  document.title = link ? `${short} · desktop ${desktopId}` : short
  find('state').textContent = short
  find('notice').hidden = title === ''
  clipboard?.enable(state === 'live')
  for (const [part, value] of Object.entries({ title, text, todo, command })) {
    const line = find(`notice-${part}`)
    line.replaceChildren(...(part === 'command' ? unbroken(value) : [value]))
    line.hidden = value === ''
  }
}

/** Breaks a command between its words only: one broken at a hyphen reads as two. */
function unbroken(command: string): (Node | string)[] {
  return command.split(' ').flatMap((word, i) => {
    const part = document.createElement('span')
    part.textContent = word
    return i === 0 ? [part] : [' ', part]
  })
}
