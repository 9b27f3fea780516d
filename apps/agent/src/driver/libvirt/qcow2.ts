// The header of a qcow2 disk: which image it stands on, and whether one that came from another host can be used. A header can
// name other files, which QEMU would open: each such name is refused or replaced before anything opens the disk.
import { execFile } from 'node:child_process'
import { open } from 'node:fs/promises'
import { promisify } from 'node:util'
import { Refusal, refuse } from '@dormouse/contract'

const run = promisify(execFile)
const magic = 0x514649fb
const rebaseMs = 60_000
const resizeMs = 60_000
/** The format's own limit. */
const maxNameBytes = 1_023

/** In bytes, as the guest sees the disk. */
interface Sizes {
  least: number
  most: number
}

/** Refuses a disk that has none of these sizes, or that needs more than its own file and a backing file. */
export async function requireOverlay(path: string, { least, most }: Sizes): Promise<void> {
  const { fault, virtualBytes } = await readHeader(path)
  if (fault) wrong(fault)
  if (virtualBytes < least || virtualBytes > most) wrong('it has another size')
}

/** How large the guest sees the disk, and why QEMU would need more than its own file and a backing file to open it. */
async function readHeader(path: string): Promise<{ virtualBytes: bigint; fault: string | undefined }> {
  const file = await open(path, 'r')
  const header = Buffer.alloc(104)
  try {
    await file.read(header, 0, header.length, 0)
  } finally {
    await file.close()
  }
  return { virtualBytes: header.readBigUInt64BE(24), fault: faultOf(header) }
}

function faultOf(header: Buffer): string | undefined {
  const version = header.readUInt32BE(4)
  if (header.readUInt32BE(0) !== magic || (version !== 2 && version !== 3)) return 'it is not a qcow2 image'
  if (header.readUInt32BE(32) !== 0) return 'it is encrypted'
  // Among these features is a file beside it for its data.
  return version === 3 && header.readBigUInt64BE(72) !== 0n
    ? 'it has features that Dormouse’s disks do not have'
    : undefined
}

/** How large the guest sees the disk. */
export async function virtualBytesIn(path: string): Promise<number> {
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(32)
    const { bytesRead } = await file.read(header, 0, header.length, 0)
    if (bytesRead < header.length || header.readUInt32BE(0) !== magic) throw new Error(`${path} is not a qcow2 image`)
    return Number(header.readBigUInt64BE(24))
  } finally {
    await file.close()
  }
}

/** The file that the disk is an overlay on; undefined if there is none. Throws if the file is no qcow2 image. */
export async function backingFileIn(path: string): Promise<string | undefined> {
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(20)
    const { bytesRead } = await file.read(header, 0, header.length, 0)
    if (bytesRead < header.length || header.readUInt32BE(0) !== magic) throw new Error(`${path} is not a qcow2 image`)
    const [at, length] = [Number(header.readBigUInt64BE(8)), header.readUInt32BE(16)]
    if (length === 0) return undefined
    if (length > maxNameBytes) throw new Error(`${path} names a backing file of ${length} bytes`)
    const name = Buffer.alloc(length)
    if ((await file.read(name, 0, length, at)).bytesRead < length) throw new Error(`${path} ends in its header`)
    return name.toString('utf8')
  } finally {
    await file.close()
  }
}

const wrong = (why: string): never => refuse('hypervisor_failed', `the disk from the other host cannot be used: ${why}`)

/** Makes the disk an overlay on that image. Only the name in its header changes; what it named before is not opened. */
export async function rebase(path: string, image: string): Promise<void> {
  const args = ['rebase', '-u', '-f', 'qcow2', '-F', 'qcow2', '-b', image, path]
  await run('qemu-img', args, { timeout: rebaseMs }).catch((cause: unknown) => {
    throw new Error('the disk could not be put on this host’s image', { cause })
  })
}

/** The guest sees that many bytes at its next boot. A power cut leaves the old size or the new one. Opens nothing that it names. */
export async function enlarge(path: string, bytes: number): Promise<void> {
  const { fault } = await readHeader(path)
  if (fault) refuse('hypervisor_failed', `the disk cannot be enlarged: ${fault}`)
  const alone = { driver: 'qcow2', backing: null, file: { driver: 'file', filename: path } }
  const args = ['resize', '-q', `json:${JSON.stringify(alone)}`, `${bytes}`]
  await run('qemu-img', args, { timeout: resizeMs }).catch((cause: Error) => {
    const full = /No space left/.test(cause.message)
    const [code, why] = full
      ? (['host_disk_full', 'the host’s disk is full'] as const)
      : (['hypervisor_failed', 'the disk could not be enlarged'] as const)
    throw Object.assign(new Refusal(code, why), { cause })
  })
}
