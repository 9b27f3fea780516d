// The mini image on a web server that every host of an instance reaches, under a name and with bytes that no host has.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ImageServer } from '@dormouse/agent/testing/image-server.ts'
import { sharePorts } from '../../../scripts/testbed/shared-ports.ts'
import type { RealHost } from './real-hosts.ts'

const mini = fileURLToPath(new URL('../../../.dormouse-test/images/mini', import.meta.url))

interface Manifest {
  [part: string]: unknown
  initrd: { file: string }
}

/** Dispose of it when no host fetches from it any more. */
export async function serveImage(name: string, version: string, hosts: readonly RealHost[]) {
  const server = await ImageServer.start(0)
  const manifest = JSON.parse(readFileSync(join(mini, 'manifest.json'), 'utf8')) as Manifest
  for (const file of ['vmlinuz', 'initrd', 'disk.qcow2']) server.files.set(file, readFileSync(join(mini, file)))
  // Linux skips zeros behind an initrd; by its digest it is another image.
  const initrd = Buffer.concat([server.files.get('initrd')!, Buffer.alloc(512)])
  server.files.set('initrd', initrd)
  const sha256 = createHash('sha256').update(initrd).digest('hex')
  const served = { ...manifest, name, version, initrd: { ...manifest.initrd, size: initrd.length, sha256 } }
  server.files.set('manifest.json', Buffer.from(JSON.stringify(served)))
  const ports = [Number(new URL(server.url).port)]
  const shared = await Promise.all(hosts.map(({ pid }) => sharePorts(pid, ports)))
  const dispose = async () => {
    for (const one of shared) one.close()
    await server[Symbol.asyncDispose]()
  }
  return { server, [Symbol.asyncDispose]: dispose }
}
