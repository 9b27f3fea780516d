// Guarantee: on real guests, an exec starts once, outlives the deaths of agent and control
// plane and the sleeps of its desktop, and what is kept of its output is exact. At full length only: hostile.test.ts has the short form.
import { createHash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Exec } from '@dormouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const MiB = 1024 * 1024
const line = '0123456789abcde\n'

let instance: Instance
beforeAll(async () => {
  instance = await Instance.start()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

/** What the guest runs of execs: supervisors, and what they run. */
const supervisors = (stage: GuestStage) => stage.run("ps | grep '[s]upervise-' | grep -vc ' port ' || :")

describe('in a guest', () => {
  let stage: GuestStage
  beforeAll(async () => {
    stage = await GuestStage.awake(instance)
  })
  afterAll(async () => {
    await stage?.desktop.destroy()
  })

  const sleepAndWake = async () => {
    await stage.desktop.hibernate()
    expect((await stage.desktop.wake()).result?.resumedFrom).toBe('memory')
  }

  test('ten minutes and 1 GiB, over deaths and two sleeps: what is kept is exact, what is dropped is counted', async () => {
    const pieces = 1_024
    const command = `n=0; while [ $n -lt ${pieces} ]; do yes 0123456789abcde | head -c ${MiB}; n=$((n + 1)); sleep 0.4; done; exit 7`
    const unread = await stage.desktop.commands.start(command)
    const read = await stage.desktop.commands.start(command)
    const reader = { offset: 0 }
    const following = exactOutput(read, reader)
    for (const trouble of ['agent', 'sleep', 'control plane', 'sleep', 'agent']) {
      const enough = reader.offset + 64 * MiB
      await waitFor('more output', () => reader.offset >= enough, 1_200_000)
      expect(reader.offset).toBeLessThan(pieces * MiB)
      if (trouble === 'sleep') await sleepAndWake()
      else await instance.kill(trouble)
      await stage.works()
    }
    for (const exec of [unread, read])
      expect(await exec.wait()).toMatchObject({ exitCode: 7, signal: null, reason: null })
    const { bytes, dropped } = await following
    expect(bytes + dropped).toBe(pieces * MiB)
    const kept = await exactOutput(unread)
    expect(kept.bytes + kept.dropped).toBe(pieces * MiB)
    expect(kept.dropped).toBe((await unread.refresh()).stdout.droppedBytes)
    expect(kept.bytes).toBeGreaterThanOrEqual(12 * MiB)
  }, 3_600_000)

  test('64 MiB to a slow reader, over a death and a sleep: none is dropped; a command whose reader has gone goes on', {
    timeout: 1_800_000,
  }, async () => {
    const { commands } = stage.desktop
    const command = `yes 0123456789abcde | head -c ${64 * MiB}; exit 7`
    const read = await commands.start(command, { waitForReader: true })
    const left = await commands.start(command, { waitForReader: true })
    await left.output()[Symbol.asyncIterator]().next()
    const reader = { offset: 0, pauseMs: 100 }
    const following = exactOutput(read, reader)
    for (const trouble of ['agent', 'sleep']) {
      const enough = reader.offset + 16 * MiB
      await waitFor('more output', () => reader.offset >= enough, 600_000)
      if (trouble === 'sleep') await sleepAndWake()
      else await instance.kill(trouble)
      await stage.works()
    }
    expect(await following).toEqual({ bytes: 64 * MiB, dropped: 0 })
    expect(await read.wait()).toMatchObject({ exitCode: 7 })
    await waitFor('the other to end', async () => (await left.refresh()).state === 'exited', 300_000)
    expect(left.state).toMatchObject({ exitCode: 7, stdout: { end: 64 * MiB } })
    const kept = await exactOutput(left)
    expect(kept).toEqual({ bytes: 64 * MiB - left.state.stdout.droppedBytes, dropped: left.state.stdout.droppedBytes })
  })

  // Over the guest agent, each start takes a fifth of a second if the guest is emulated.
  test('200 at once and 2,000 in a row all end as they should, and leave nothing running in the guest', {
    timeout: 1_800_000,
  }, async () => {
    const { commands } = stage.desktop
    const atOnce: Exec[] = []
    for (let i = 0; i < 200; i += 20)
      atOnce.push(
        ...(await Promise.all(Array.from({ length: 20 }, (_, n) => commands.start(`sleep 5; exit ${(i + n) % 100}`)))),
      )
    const ends = await Promise.all(atOnce.map((exec) => exec.wait()))
    expect(ends.map(({ exitCode }) => exitCode)).toEqual(atOnce.map((_, i) => i % 100))
    for (let i = 0; i < 2_000; i += 10)
      await Promise.all(Array.from({ length: 10 }, () => commands.start('echo short')))
    await waitFor('all to end', async () => (await commands.list()).every(({ state }) => state === 'exited'), 600_000)
    expect((await commands.list()).length).toBeLessThanOrEqual(1_000)
    await waitFor('the supervisors to end', async () => (await supervisors(stage)) === '0\n')
  })

  test('1 MiB of input arrives whole, over a death of the agent; a lost answer repeats nothing', async () => {
    const text = Array.from({ length: MiB / 16 }, (_, n) => `${n}`.padStart(15, '0')).join('\n')
    const exec = await stage.desktop.commands.start('sleep 1; md5sum', { stdin: true })
    const sending = exec.sendStdin(text, { eof: true })
    await instance.kill('agent')
    await sending
    await exec.wait()
    expect(await textOf(exec)).toBe(`${createHash('md5').update(text).digest('hex')}  -\n`)
  })

  test('a guest that boots again has lost its execs, and keeps their output', async () => {
    const exec = await stage.desktop.commands.start('echo kept; sync; sleep 3600')
    await waitFor('the output to be on the disk', async () => (await textOf(exec)) === 'kept\n')
    // The supervisor syncs every five seconds.
    await stage.run('sleep 6')
    await stage.desktop.hibernate()
    await stage.desktop.wake({ discardMemory: true })
    expect(await exec.refresh()).toMatchObject({ state: 'lost', reason: 'boot', exitCode: null })
    expect(await textOf(exec)).toBe('kept\n')
  })
})

/** All that is there now. */
async function textOf(exec: Exec): Promise<string> {
  const { stdout } = await exec.refresh()
  let text = ''
  if (stdout.end === 0) return text
  for await (const { bytes, nextOffset } of exec.output()) {
    text += new TextDecoder().decode(bytes)
    if (nextOffset >= stdout.end) break
  }
  return text
}

/** Reads to the end, and keeps how far it is. Fails at the first byte that is not the one of its offset. */
async function exactOutput(
  exec: Exec,
  reader: { offset: number; pauseMs?: number } = { offset: 0 },
): Promise<{ bytes: number; dropped: number }> {
  const pattern = Buffer.from(line.repeat(65_536))
  let dropped = 0
  for await (const { bytes, offset, nextOffset } of exec.output()) {
    dropped += offset - reader.offset
    const phase = offset % line.length
    expect(Buffer.compare(Buffer.from(bytes), pattern.subarray(phase, phase + bytes.length))).toBe(0)
    reader.offset = nextOffset
    if (reader.pauseMs) await setTimeout(reader.pauseMs)
  }
  return { bytes: reader.offset - dropped, dropped }
}
