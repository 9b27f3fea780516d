// Guarantee: on real guests, over SSH on a port, over SSH on a network and over the guest agent, whatever becomes of the
// guest under a command or a transfer, its caller hears of it soon, with a reason; one that is only busy is waited for.
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { codeOf, GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024
/** Two seconds are meant; the machine may be slow. The command itself would take a minute. */
const soonMs = 6_000
/** To boot again costs QEMU's emulator four cold boots: it throws away, bit by bit, what it had translated. */
const rebootMs = 180_000

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

/** By whether the desktop's state had changed when its guest was found to be silent. */
const noGuest = expect.stringMatching(/^(guest_unavailable|not_awake)$/)

describe('in a guest', () => {
  let stage: GuestStage
  beforeAll(async () => {
    stage = await GuestStage.awake(instance)
    await stage.run('mkdir -p /srv; truncate -s 400M /srv/large')
  })
  afterEach(async () => {
    await stage.works()
    await stage.run('killall sleep 2>/dev/null; :')
  })

  /** Begins a command, a write and a read, lets `cause` happen, and answers how each ended. */
  async function under(cause: () => Promise<unknown> | unknown, of: GuestStage = stage): Promise<string[]> {
    const began = [command(of), upload(of), download(of)]
    await Promise.all(began.map(({ under }) => under))
    const causedAt = performance.now()
    // A command may go on to its end.
    const late = (who: string) =>
      new Promise<never>((_, reject) =>
        setTimeout(reject, who === 'command' ? 3 * soonMs : soonMs, new Error(`nobody told the ${who}`)).unref(),
      )
    const ended = began.map(async ({ ended }): Promise<Told> => [await ended, performance.now() - causedAt])
    await cause()
    const answers = await Promise.all(
      ended.map((told, i) => Promise.race([told, late(['command', 'upload', 'download'][i]!)])),
    )
    say(answers)
    return answers.map(([code]) => code)
  }

  /** The code of an answer, and how long after the cause it came, in ms. */
  type Told = [code: string, ms: number]
  const told = async (asked: Promise<unknown>, causedAt: number): Promise<Told> => [
    await codeOf(asked),
    performance.now() - causedAt,
  ]
  const say = (answers: Told[]) =>
    console.info(
      `${expect.getState().currentTestName?.split(' > ').slice(1).join(': ')}: ${answers.map(([code, ms]) => `${code} ${Math.round(ms)} ms`).join(', ')}`,
    )

  /** `under` resolves once the guest is at it. */
  function command(of: GuestStage) {
    const mark = `/run/mark-${Math.random()}`
    const ended = codeOf(of.exec(`touch ${mark}; sleep 10`))
    return { ended, under: waitFor(async () => (await codeOf(of.get(mark))) === 'done', 10_000) }
  }

  const halfFiles = (of: GuestStage) => of.run(`ls -A /srv | grep '^.dormouse-' || :`)

  function upload(of: GuestStage) {
    const sent = of.open('PUT', '/srv/cut', { 'content-length': String(8 * mib) })
    const slowly = setInterval(() => sent.write(Buffer.alloc(1_000)), 50)
    const ended = (once(sent, 'response') as Promise<[IncomingMessage]>).then(async ([response]) => {
      clearInterval(slowly)
      return ((await json(response)) as { code: string }).code
    })
    const early = ended.then((code) =>
      Promise.reject(new Error(`the upload ended with ${code}, before its file was seen`)),
    )
    const isSeen = waitFor('the half file', async () => (await halfFiles(of)) !== '', 10_000)
    return { ended, under: Promise.race([isSeen, early]) }
  }

  function download(of: GuestStage) {
    const asked = of.open('GET', '/srv/large')
    asked.end()
    const answered = once(asked, 'response') as Promise<[IncomingMessage]>
    const ended = answered.then(async ([response]) => {
      try {
        for await (const _ of response);
        return 'done'
      } catch {
        return 'broken off'
      }
    })
    return { ended, under: answered }
  }

  /** Runs in the guest beside everything, whatever becomes of those who started it. */
  const aside = (script: string, of: GuestStage = stage) =>
    of.run(`setsid sh -c ${JSON.stringify(script).replaceAll('$', '\\$')} </dev/null >/dev/null 2>&1 & :`)

  const withoutRespawn = `sed -i 's/^::respawn:.*guest-agent/#&/' /etc/inittab; kill -HUP 1; sleep 0.2`
  const withRespawn = `sed -i 's/^#::respawn/::respawn/' /etc/inittab; kill -HUP 1`
  const port = '/dev/virtio-ports/org.qemu.guest_agent.0'

  describe.each([
    ['mute', 'killall -STOP qemu-ga', 'killall -CONT qemu-ga'],
    ['gone', `${withoutRespawn}; killall -9 qemu-ga`, withRespawn],
    [
      'replaced by noise',
      `${withoutRespawn}; killall -9 qemu-ga; sleep 0.2; (while :; do head -c 300 /dev/urandom; sleep 0.05; done >${port}) & n=$!`,
      `kill $n; ${withRespawn}`,
    ],
  ])('a guest agent that is %s', (_how, cause, remedy) => {
    test('leaves commands and files at work', async () => {
      await aside(`sleep 3; ${cause}; sleep 9; ${remedy}`)
      const causedAt = performance.now() + 3_000
      const running = told(stage.exec('sleep 6'), causedAt)
      await new Promise((resolve) => setTimeout(resolve, 3_500))
      const asked = [stage.exec('true'), stage.put('/srv/x', 'x'), stage.get('/etc/inittab')]
      const answers = await Promise.all([running, ...asked.map((asking) => told(asking, performance.now()))])
      say(answers)
      expect(answers.map(([code]) => code)).toEqual(Array(4).fill('done'))
    })
  })

  test('QEMU is stopped: calls in progress fail, and all works again when it continues', async () => {
    const { qemu } = stage
    try {
      const codes = await under(() => process.kill(qemu, 'SIGSTOP'))
      expect(codes).toEqual(['exec_interrupted', 'guest_unavailable', 'broken off'])
      expect(await codeOf(stage.exec('true'))).toMatch(/guest_unavailable|exec_interrupted/)
    } finally {
      process.kill(qemu, 'SIGCONT')
    }
  })

  test('a guest that the command reboots', async () => {
    const codes = await under(() => codeOf(stage.exec('reboot -f')))
    expect(codes).toEqual(['exec_interrupted', 'guest_unavailable', 'broken off'])
    await stage.works(rebootMs)
    await waitFor(async () => (await halfFiles(stage)) === '', 60_000)
  })

  test('the agent is killed: calls in progress fail, and the next ones work', async () => {
    const codes = await under(() => instance.kill('agent'))
    expect(codes).toEqual(['host_unreachable', 'host_unreachable', 'broken off'])
    await stage.works()
  })

  test('a desktop that hibernates', async () => {
    const codes = await under(() => stage.desktop.hibernate())
    expect(codes).toEqual(['exec_interrupted', noGuest, 'broken off'])
    await stage.desktop.wake()
  })

  test.each(['powered off by the command', 'destroyed'])('a desktop that is %s', async (how) => {
    const doomed = await GuestStage.awake(instance)
    await doomed.run('mkdir -p /srv; truncate -s 400M /srv/large')
    const codes = await under(
      () => (how === 'destroyed' ? doomed.desktop.destroy() : codeOf(doomed.exec('poweroff -f'))),
      doomed,
    )
    expect(codes).toEqual(['exec_interrupted', noGuest, 'broken off'])
    await waitFor(async () => /not_awake|not_found/.test(await codeOf(doomed.exec('true'))), 10_000)
    if (how !== 'destroyed') await doomed.desktop.destroy()
  })

  test.each([
    ['the SSH server is killed', 'killall -9 sshd'],
    ['our program is killed, and the server too', 'pkill -9 -f " port ssh"; killall -9 sshd'],
    ['the SSH server is mute', 'killall -STOP sshd; sleep 8; killall -CONT sshd'],
  ])('%s: a command goes on, transfers are told, and the next one works', async (_what, cause) => {
    // It may be quicker than the answer to what began it.
    const codes = await under(() => codeOf(aside(cause)))
    expect(codes).toEqual(['done', 'guest_unavailable', 'broken off'])
  })

  test('a command that lost its connection is ended at its deadline all the same', async () => {
    const lost = codeOf(stage.exec('exec sleep 4321', { timeout_secs: 10 }))
    const runs = async () => (await stage.exec('ps | grep -q "[s]leep 4321"').catch(() => undefined))?.exit_code
    await waitFor(async () => (await runs()) === 0, 5_000)
    await codeOf(aside('killall -9 sshd'))
    expect(await lost).toBe('guest_deadline')
    expect(await runs()).toBe(1)
  })

  test('a busy guest is waited for: commands in progress succeed, and new ones start', async () => {
    const busy = stage.exec('i=0; while [ $i -lt 12 ]; do i=$((i + 1)); (while :; do :; done) & done; sleep 12', {
      timeout_secs: 10,
    })
    const deadline = codeOf(busy)
    const beside = Array.from({ length: 3 }, (_, i) => stage.exec(`sleep 4; echo ${i}`))
    expect((await Promise.all(beside)).map(({ stdout }) => stdout)).toEqual(['0\n', '1\n', '2\n'])
    await stage.put('/srv/beside', 'busy')
    expect(Buffer.from(await stage.get('/srv/beside')).toString()).toBe('busy')
    expect(await deadline).toBe('guest_deadline')
  })

  test('a fork bomb is ended at its deadline, and the guest works afterwards', async () => {
    expect(await codeOf(stage.exec('b() { b | b & }; b; sleep 60', { timeout_secs: 4 }))).toBe('guest_deadline')
    await stage.works(90_000)
    const few = async () => (await stage.exec('[ $(ps | wc -l) -lt 100 ]').catch(() => undefined))?.exit_code === 0
    await waitFor(few, 60_000)
  })
})
