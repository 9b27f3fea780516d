// The page that shows a desktop: opens its screen, says where it stands, and comes back by itself where it may.
import { type ScreenNote, screenProtocol, ticketKept } from '@dormouse/contract/screens'
import RFB from '@novnc/novnc'
import { Clipboard } from './clipboard.ts'
import { courseAfter, type PageState, words } from './course.ts'
import { Keyring } from './keyring.ts'

const find = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T

const claim = location.pathname.endsWith('/control') ? 'control' : 'view'
const keyring = new Keyring(location, history, sessionStorage)
let rfb: RFB | undefined
let darkSince = performance.now()
let attempts = 0

document.body.dataset.claim = claim
find('badge').textContent = claim === 'control' ? 'Control' : 'View only'
const clipboard =
  claim === 'control'
    ? new Clipboard({
        button: find('clipboard'),
        panel: find('clipboard-panel'),
        text: find('clipboard-text'),
        paste: (text) => rfb?.clipboardPasteFrom(text),
      })
    : undefined

find('full-screen').addEventListener('click', () => {
  const change = document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()
  change.catch(() => undefined)
})
open()

function open(): void {
  const key = keyring.key
  if (key === undefined) return void show('ended')
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${location.pathname}/${key}`, [screenProtocol])
  socket.addEventListener('message', ({ data }) => {
    if (typeof data !== 'string') return
    keyring.keep((JSON.parse(data) as ScreenNote).ticket)
    socket.send(ticketKept)
  })
  socket.addEventListener('close', ({ code }) => closed(code))
  const opened = new RFB(find('screen'), socket, { shared: true })
  opened.viewOnly = claim === 'view'
  opened.scaleViewport = true
  opened.focusOnClick = true
  opened.showDotCursor = claim === 'control'
  opened.background = '#000'
  opened.addEventListener('connect', () => {
    attempts = 0
    show('live')
    opened.focus()
  })
  opened.addEventListener('clipboard', ({ detail }) => clipboard?.receive(detail.text))
  opened.addEventListener('desktopname', ({ detail }) => {
    document.title = detail.name
  })
  rfb = opened
}

function closed(code: number): void {
  rfb = undefined
  if (document.body.dataset.state === 'live') darkSince = performance.now()
  const darkForMs = performance.now() - darkSince
  const { state, againInMs } = courseAfter({ code, darkForMs, attempts, hasTicket: keyring.key !== undefined })
  attempts++
  show(state)
  if (againInMs !== undefined) setTimeout(open, againInMs)
  else keyring.drop()
}

function show(state: PageState): void {
  const { short, title = '', text = '', todo = '' } = words[state]
  document.body.dataset.state = state
  find('state').textContent = short
  find('notice').hidden = title === ''
  find('notice-title').textContent = title
  find('notice-text').textContent = text
  find('notice-todo').textContent = todo.replace('{id}', location.pathname.split('/')[2] ?? '')
}
