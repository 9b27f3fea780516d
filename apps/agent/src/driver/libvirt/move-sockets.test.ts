// Guarantee: QEMU's user, whatever it does with names, changes nothing of the agent's and gets no more than its own sockets.
import { execFileSync } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  mkdtempDisposableSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, matchesGlob } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { loadDevices, saveDevices } from './device-state.ts'
import { domainName } from './domain-xml.ts'
import { confinedPlace, listenForQemu, openMoveFolder } from './move-sockets.ts'

const qemu = { uid: 65_534, gid: 65_534 }
const asQemu = (script: string, cwd: string): string =>
  execFileSync('sh', ['-c', script], { ...qemu, cwd, encoding: 'utf8', stdio: 'pipe' })
const isRoot = process.geteuid?.() === 0

function place() {
  const made = mkdtempDisposableSync(join(tmpdir(), 'dormouse-moves-'))
  execFileSync('chmod', ['0711', made.path])
  return { at: (name: string) => join(made.path, name), [Symbol.dispose]: () => made.remove() }
}

const placeIn = (files: ReturnType<typeof place>) => ({ base: files.at('moves'), suffix: '' })

/** As in virt-aa-helper of libvirt 9 and 11. */
test('a confined QEMU may use the sockets of its own move, whose paths are short enough', () => {
  const name = domainName({ installationId: newId(), desktopId: newId() })
  const { base, suffix } = confinedPlace(name)
  const path = `${base}/012345678901/d${suffix}`
  expect(matchesGlob(path, `/run/libvirt/**/*.tunnelmigrate.dest.${name}`)).toBe(true)
  expect(path.length).toBeLessThanOrEqual(107)
})

test.runIf(isRoot)('a folder in which the agent listens lets QEMU’s user connect, and change no name', async () => {
  using files = place()
  const folder = await openMoveFolder(placeIn(files), newId(), qemu)
  const path = folder.path('devices')
  const server = createServer((socket) => socket.end())
  await listenForQemu(server, path)
  const connect = `require('node:net').connect('${path}').on('connect', () => process.exit(0))`
  execFileSync(process.execPath, ['-e', connect], { ...qemu, cwd: '/' })
  for (const attempt of [
    `rm -f ${path}`,
    `mv ${path} ${path}2`,
    `ln -s /etc ${path}2`,
    `mkdir ${path}2`,
    `ls $(dirname ${path})`,
  ])
    expect(() => asQemu(attempt, '/')).toThrow(/Permission denied/)
  server.close()
})

test.runIf(isRoot)('in a folder in which QEMU listens, the agent follows no link', async () => {
  using files = place()
  // Only root may open it.
  let opened = 0
  const secret = createServer((socket) => {
    opened++
    socket.end()
  })
  await new Promise<void>((listening) => secret.listen(files.at('secret'), listening))
  writeFileSync(files.at('devices'), 'devices')
  const folder = await openMoveFolder(placeIn(files), newId(), qemu, 'qemu')
  asQemu(`ln -s ${files.at('secret')} ${folder.path('devices')}`, '/')
  const domain = { monitor: async () => ({ status: 'completed' }) }
  await expect(loadDevices(domain, folder.path('devices'), files.at('devices'))).rejects.toMatchObject({
    code: 'hypervisor_failed',
  })
  expect(opened).toBe(0)
  secret.close()
})

test.runIf(isRoot)('what QEMU’s user has left in the folder is removed, and nothing behind its links', async () => {
  using files = place()
  mkdirSync(files.at('kept'))
  writeFileSync(files.at('kept/file'), 'root only', { mode: 0o600 })
  const id = newId()
  const first = await openMoveFolder(placeIn(files), id, qemu, 'qemu')
  const of = first.path('disk').replace(/disk$/, '')
  asQemu(`mkdir -p a/b && ln -s ${files.at('kept')} a/b/c && ln -s ${files.at('kept/file')} devices && chmod 0 a`, of)
  const folder = await openMoveFolder(placeIn(files), id, qemu)
  expect(readdirSync(of)).toEqual([])
  expect(lstatSync(of)).toMatchObject({ uid: 0, gid: qemu.gid, mode: 0o40710 })
  const stop = { monitor: async () => Promise.reject(new Error('stop here')) }
  await expect(saveDevices(stop, folder.path('devices'), files.at('out'))).rejects.toThrow()
  await folder.remove()
  expect(statSync(files.at('kept/file'))).toMatchObject({ mode: 0o100600 })
  expect(readFileSync(files.at('kept/file'), 'utf8')).toBe('root only')
  expect(readdirSync(files.at('moves'))).toEqual([])
})

test('a link in the place of the folder of all moves is refused', async () => {
  using files = place()
  mkdirSync(files.at('elsewhere'))
  symlinkSync(files.at('elsewhere'), files.at('moves'))
  await expect(openMoveFolder(placeIn(files), newId(), undefined)).rejects.toThrow('must be a folder of the agent')
  expect(readdirSync(files.at('elsewhere'))).toEqual([])
})
