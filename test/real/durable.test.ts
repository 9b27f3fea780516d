// Guarantee: what an agent calls written is on the disk, also after a power cut. Only the system calls show that: a file
// that was never synced reads as well as one that was.
import { execFile } from 'node:child_process'
import { mkdtempDisposableSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const agent = join(import.meta.dirname, '../../apps/agent/src')
const id = '01900000-0000-7000-8000-000000000000'
const calls = ['openat', 'write', 'pwrite64', 'writev', 'fsync', 'fdatasync', 'rename', 'renameat', 'renameat2']

/** Runs a program of these modules; returns its calls on files of the folder, in order, as `fsync a/b` or `rename a b`. */
async function traced(folder: string, program: string): Promise<string[]> {
  const log = join(folder, 'trace')
  const script = `
    import { writeDurably } from '${agent}/mechanics/durable-file.ts'
    import { Journal } from '${agent}/desktops/journal.ts'
    import { MemoryImages } from '${agent}/desktops/memory-images.ts'
    import { writeFile } from 'node:fs/promises'
    ${program}`
  const words = ['-f', '-y', '-s', '16', '-e', `trace=${calls}`, '-o', log, process.execPath]
  await promisify(execFile)('strace', [...words, '--input-type=module', '-e', script])
  return readFileSync(log, 'utf8')
    .split('\n')
    .map((line) => callOn(folder, line))
    .filter((call) => call !== undefined)
}

/** A call that began; one that another thread's cut in two is told by its beginning. */
function callOn(folder: string, line: string): string | undefined {
  const [, name, args] = /^\d+ +(\w+)\((.*)/.exec(line) ?? []
  const within = (path: string) => relative(folder, path) || '.'
  const [, open] = /^\d+<(.*?)>/.exec(args ?? '') ?? []
  if (name?.startsWith('rename')) {
    const paths = [...args!.matchAll(/"(.*?)"/g)].map(([, path]) => path!)
    return paths.every((path) => path.startsWith(folder)) ? `rename ${paths.map(within).join(' ')}` : undefined
  }
  if (name === 'openat' || !open?.startsWith(folder)) return undefined
  return `${name?.replace(/^p?writev?(64)?$/, 'write').replace('fdatasync', 'fsync')} ${within(open)}`
}

const inOrder = (...parts: string[]) => new RegExp(parts.join('\n(?:.*\n)*?'))

test('a small file is written, synced, renamed into place, and then its folder is synced', async () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-durable-'))
  const seen = await traced(at.path, `await writeDurably('${at.path}/entry.json', 'all of it')`)
  const temporary = seen[0]?.split(' ')[1]
  expect(temporary).toMatch(/^entry\.json\..*\.tmp$/)
  expect(seen).toEqual([`write ${temporary}`, `fsync ${temporary}`, `rename ${temporary} entry.json`, 'fsync .'])
})

test('a saved memory is synced before its manifest says that it is whole', async () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-durable-'))
  const fence = { desktopId: id, operationId: id, epoch: 1, generation: 1, turn: 2, deadlineMs: 1_000 }
  const by = { hypervisor: 'any', emulator: 'any', cpuModel: 'any', machine: 'any' }
  const seen = await traced(
    at.path,
    `const memory = new MemoryImages('${at.path}', '${id}')
     const image = await memory.intend(${JSON.stringify(fence)}, ${JSON.stringify(by)}, null)
     await writeFile(image.path, 'LibvirtQemudSave'.padEnd(200))
     await memory.complete(image)`,
  )
  const [manifest, saved] = ['json', 'save'].map((end) => `${id}/1-2-${id}.${end}`)
  const [intended, synced, completed] = [`write ${manifest}`, `fsync ${saved}`, `write ${manifest}`]
  expect(seen.join('\n')).toMatch(inOrder(intended, `write ${saved}`, synced, completed, `fsync ${manifest}`))
  // So are the folders: until then a power cut could take the files away.
  for (const folder of ['.', id]) {
    expect(seen.join('\n')).toMatch(inOrder(intended, `write ${saved}`, `fsync ${folder}`, completed))
  }
})

test('a used memory is marked by a write in place that is synced before its guest goes on', async () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-durable-'))
  const fence = { desktopId: id, operationId: id, epoch: 1, generation: 1, turn: 2, deadlineMs: 1_000 }
  const by = { hypervisor: 'any', emulator: 'any', cpuModel: 'any', machine: 'any' }
  const seen = await traced(
    at.path,
    `const memory = new MemoryImages('${at.path}', '${id}')
     const image = await memory.intend(${JSON.stringify(fence)}, ${JSON.stringify(by)}, null)
     await writeFile('${at.path}/intended', 'a')
     await memory.spend(image)`,
  )
  const manifest = `${id}/1-2-${id}.json`
  expect(seen).toEqual([`write ${manifest}`, 'write intended', `write ${manifest}`, `fsync ${manifest}`])
})

test('commands accepted together are appended by one write and one sync, without a rename', async () => {
  using at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-durable-'))
  const other = id.replace(/0$/, '1')
  const seen = await traced(
    at.path,
    `const journal = await Journal.open('${at.path}')
     const accept = (desktopId) =>
       journal.accept({ desktopId, operationId: '${id}', epoch: 1, generation: 1, turn: 2, deadlineMs: 1 }, 'any')
     await Promise.all(['${id}', '${other}'].map(accept))
     await writeFile('${at.path}/accepted', '')
     await journal.note({ desktopId: '${id}', generation: 1, turn: 2 }, { state: 'done' })
     await journal.close()`,
  )
  const opened = seen.lastIndexOf('rename journal.log.new journal.log')
  expect(seen.slice(0, opened).slice(-2)).toEqual(['write journal.log.new', 'fsync journal.log.new'])
  const appended = seen.slice(opened).filter((call) => call.endsWith(' journal.log') && !call.startsWith('rename'))
  expect(appended).toEqual(['write journal.log', 'fsync journal.log', 'write journal.log'])
})
