// Guarantee: what the log has acknowledged is read back whatever moment the machine stops at; what is damaged is never
// taken for the end.
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AppendLog, readLogFile } from './append-log.ts'
import { emptySpace, frameOf, headOf, readLog } from './log-frames.ts'

interface Bench {
  path: string
  log: AppendLog
  /** What a snapshot would contain. */
  records: string[]
  /** Called at each failpoint. */
  hit: (name: string) => void
}

async function withLog(work: (bench: Bench) => Promise<void>): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-log-'))
  const path = join(folder.path, 'log')
  const bench = { path, records: [], hit: () => undefined } as unknown as Bench
  const hit = async (name: string) => bench.hit(name)
  bench.log = await AppendLog.open({ path, snapshot: () => bench.records, hit }, undefined)
  try {
    await work(bench)
  } finally {
    await bench.log.close()
  }
}

const append = ({ log, records }: Bench, record: string, options = {}) =>
  log.append(record, { ...options, onWritten: () => records.push(record) })

const noSpace = () => {
  throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
}

test('what is appended at once is one frame, and none is acknowledged before its sync', () =>
  withLog(async (bench) => {
    let syncs = 0
    const durable: string[] = []
    bench.hit = (name) => {
      if (name !== 'journal.before-sync') return
      syncs++
      expect(durable).toEqual([])
    }
    const records = Array.from({ length: 50 }, (_, i) => `${i}`)
    await Promise.all(records.map((record) => append(bench, record).then(() => durable.push(record))))
    expect(syncs).toBe(1)
    expect(readLogFile(bench.path)).toMatchObject({ records: records.map(Number), frames: 1 })
  }))

test('who waits for records that were written before waits for one sync, and for none when they are on the disk', () =>
  withLog(async (bench) => {
    let syncs = 0
    bench.hit = (name) => void (name === 'journal.before-sync' && syncs++)
    await append(bench, '1', { unsynced: true })
    await append(bench, '2', { unsynced: true })
    expect(syncs).toBe(0)
    await Promise.all([bench.log.synced(1), bench.log.synced(bench.log.appended)])
    expect(syncs).toBe(1)
    await append(bench, '3', { unsynced: true })
    await bench.log.synced(2)
    expect(syncs).toBe(1)
    bench.hit = () => {
      throw new Error('input/output error')
    }
    await expect(bench.log.synced(3)).rejects.toThrow('input/output error')
    await expect(bench.log.synced(3)).rejects.toThrow('input/output error')
  }))

test('a tail that was cut off at any byte is left out', () => {
  const whole = headOf(1) + frameOf(1, 0, ['"snapshot"']) + frameOf(2, 1, ['"kept"'])
  const torn = frameOf(3, 2, ['"cut off"'])
  for (let bytes = 0; bytes < torn.length; bytes++) {
    const log = Buffer.concat([Buffer.from(whole + torn.slice(0, bytes)), emptySpace(100)])
    const { records, endBytes } = readLog(log)
    // The line feed alone may be missing: what is behind it is one.
    expect(records).toEqual(bytes < torn.length - 1 ? ['snapshot', 'kept'] : ['snapshot', 'kept', 'cut off'])
    if (bytes < torn.length - 1) expect(endBytes).toBe(whole.length)
  }
})

test('frames that were not synced before the machine stopped may be torn in any order', () => {
  const synced = headOf(0) + frameOf(1, 0, ['"kept"'])
  const lost = frameOf(2, 1, ['"never reached the disk"'])
  const text = `${synced}${'\n'.repeat(lost.length)}${frameOf(3, 1, ['"not acknowledged either"'])}`
  expect(readLog(Buffer.concat([Buffer.from(text), emptySpace(10)])).records).toEqual(['kept'])
})

test.each([
  ['the head', 3],
  ['the snapshot', headOf(1).length + 15],
  ['a frame before others', (headOf(1) + frameOf(1, 0, ['"snapshot"'])).length + 15],
])('damage to %s is not taken for the end', (_, at) => {
  const frames = [frameOf(1, 0, ['"snapshot"']), frameOf(2, 1, ['"one"']), frameOf(3, 2, ['"two"'])]
  const log = Buffer.concat([Buffer.from(headOf(1) + frames.join('')), emptySpace(10)])
  expect(readLog(log).records).toEqual(['snapshot', 'one', 'two'])
  log[at] = log[at]! ^ 1
  expect(() => readLog(log)).toThrow(/damaged|snapshot ends/)
})

test('a log that is empty or of a later format is refused by its name', () =>
  withLog(async ({ path }) => {
    writeFileSync(path, '')
    expect(() => readLogFile(path)).toThrow(`the journal ${path} cannot be read: its first line is damaged`)
    writeFileSync(path, frameOf(0, 0, ['{"journal":2,"snapshotFrames":0}']))
    expect(() => readLogFile(path)).toThrow('it has format 2; this agent reads format 1')
  }))

test('after a failed sync nothing is acknowledged any more, not even by a later sync that succeeds', () =>
  withLog(async (bench) => {
    await append(bench, '1')
    bench.hit = () => {
      throw new Error('input/output error')
    }
    const lost = append(bench, '2')
    await expect(lost).rejects.toThrow(/cannot be written: input\/output error; restart the agent/)
    bench.hit = () => undefined
    await expect(append(bench, '3')).rejects.toThrow('input/output error')
    expect(bench.log.failure?.message).toContain('input/output error')
    expect(bench.records).toEqual(['1'])
  }))

test('a full file is replaced by a snapshot, and stays bounded', () =>
  withLog(async (bench) => {
    const names: string[] = []
    bench.hit = (name) => void names.push(name)
    const record = JSON.stringify('x'.repeat(60_000))
    for (let i = 0; i < 40; i++) await bench.log.append(record, { onWritten: () => bench.records.splice(0, 1, record) })
    expect(names.filter((name) => name === 'journal.replace.renamed').length).toBeGreaterThan(1)
    const size = readFileSync(bench.path).length
    expect(size).toBeLessThan(2 ** 21)
    expect(readLogFile(bench.path)?.records.at(-1)).toHaveLength(60_000)
  }))

test.each(['written', 'synced', 'renamed'])('stopped when a new file is %s, it has all that was acknowledged', (step) =>
  withLog(async (bench) => {
    bench.hit = (name) => {
      if (name === `journal.replace.${step}`) throw new Error('stopped')
    }
    const record = (i: number) => JSON.stringify(`${i}`.padEnd(60_000))
    const appended = async () => {
      for (let i = 0; i < 40; i++) await append(bench, record(i))
    }
    await expect(appended()).rejects.toThrow('stopped')
    expect(bench.records.length).toBeGreaterThan(5)
    expect(readLogFile(bench.path)?.records.map((kept) => JSON.stringify(kept))).toEqual(bench.records)
  }),
)

test('where the disk is full, the end of the file is for those who may use the reserve', () =>
  withLog(async (bench) => {
    bench.hit = (name) => (name === 'journal.replace.written' ? noSpace() : undefined)
    const record = JSON.stringify('x'.repeat(60_000))
    const fill = async (options = {}) => {
      for (let written = 0; ; written++) {
        const done = await append(bench, record, options).then(
          () => true,
          (error: { code: string }) => error.code,
        )
        if (done !== true) return { written, code: done }
      }
    }
    expect(await fill()).toEqual({ written: 13, code: 'ENOSPC' })
    expect(bench.log.hasReserve).toBe(true)
    expect(await fill({ useReserve: true })).toEqual({ written: 4, code: 'ENOSPC' })
    expect(bench.log.hasReserve).toBe(false)
    expect(await bench.log.refillReserve()).toBe(false)
    expect(readLogFile(bench.path)?.records).toHaveLength(17)
    bench.hit = () => undefined
    expect(await bench.log.refillReserve()).toBe(true)
    await append(bench, record)
    expect(readLogFile(bench.path)?.records).toHaveLength(18)
  }))

test('an agent that starts on a full disk continues behind the last whole frame', () =>
  withLog(async (bench) => {
    await append(bench, '1')
    await append(bench, '2')
    await bench.log.close()
    const bytes = readFileSync(bench.path)
    const { endBytes } = readLog(bytes)
    bytes.write('3 2 torn', endBytes)
    writeFileSync(bench.path, bytes)
    const full = { path: bench.path, snapshot: () => bench.records, hit: async () => noSpace() }
    const content = readLogFile(bench.path)
    let begins = true
    const hit = async () => (begins ? noSpace() : undefined)
    const log = await AppendLog.open({ ...full, hit }, content)
    begins = false
    expect(log.hasReserve).toBe(false)
    await log.append('3')
    await log.close()
    expect(readLogFile(bench.path)?.records).toEqual([1, 2, 3])
  }))
