// A file of 256 MiB to the disk of a real guest and back, through the API and by SFTP on its twin, in turn.
import { randomBytes } from 'node:crypto'
import { createWriteStream, openAsBlob, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import type { Real } from '../real.ts'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const mib = 1024 * 1024
const fileMiB = 256
const inGuest = '/root/bench-large'

export const largeFiles: Subject = {
  name: 'large-files',
  what: 'a file of 256 MiB to the disk of a real guest and back, beside SFTP on its twin',
  hosts: 'real',
  seconds: { fixed: 40, perRound: 80 },
  run: async ({ real, rounds }) => {
    const stage = await real.get()
    const here = join(stage.instance.dataDir, 'bench-large')
    const back = `${here}.back`
    writeFileSync(here, randomBytes(fileMiB * mib))
    const raw = await stage.twin.ssh()
    try {
      const taken = await alternate(rounds, {
        floor: () => roundOf({ upload: () => raw.put(here, inGuest), download: () => raw.get(inGuest, back) }),
        ours: () => roundOf(overApi(stage, here, back)),
      })
      const of = { subject: 'large-files', better: 'more', unit: 'MiB per second', floor: 'SFTP' } as const
      return [
        rowOf(taken, { ...of, ratioKind: 'share', name: 'upload of 256 MiB', of: 'upload' }),
        rowOf(taken, { ...of, ratioKind: 'share', name: 'download of 256 MiB', of: 'download' }),
      ]
    } finally {
      raw.close()
      for (const file of [here, back]) rmSync(file, { force: true })
    }
  },
}

interface BothWays {
  upload(): Promise<unknown>
  download(): Promise<unknown>
}

const overApi = ({ instance: { client }, desktop }: Real, here: string, back: string): BothWays => ({
  upload: async () => client.upload(desktop.id, inGuest, await openAsBlob(here)),
  download: async () => {
    const stream = await client.readFile(desktop.id, inGuest, { format: 'stream' })
    await pipeline(Readable.fromWeb(stream as ReadableStream), createWriteStream(back))
  },
})

/** The rates of both ways. */
async function roundOf({ upload, download }: BothWays): Promise<Measured> {
  return { upload: await rateOf(upload), download: await rateOf(download) }
}

async function rateOf(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return fileMiB / ((performance.now() - began) / 1_000)
}
