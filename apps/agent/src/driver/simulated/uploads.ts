// Uploads of a simulated guest: a temporary file in its store, as in a real one.
import { refuse, type UploadCommand, type UploadResult } from '@dormouse/contract'
import type { UploadAppend } from '../guest-transport.ts'
import type { FileStore } from './entries.ts'
import { asBytes, asText, refuseUnwritable } from './files.ts'

type Target = Pick<UploadCommand, 'path' | 'uploadId'>

const temporaryOf = ({ path, uploadId }: Target) =>
  `${path.slice(0, path.lastIndexOf('/'))}/.dormouse-upload-${uploadId}`

const sizeOf = (text: string | undefined) => (text === undefined ? null : asBytes(text).length)

export function simulatedStep(store: FileStore, command: UploadCommand): UploadResult {
  const { path, step, size } = command
  const temporary = temporaryOf(command)
  const text = store.read(temporary)
  if (step === 'prepare') {
    refuseUnwritable(store.paths(), path)
    if (text === undefined) store.write(temporary, '')
    return { size: sizeOf(text) ?? 0, placed: null }
  }
  if (step === 'drop') {
    store.write(temporary, undefined)
    return { size: null, placed: null }
  }
  if (step === 'measure') return { size: sizeOf(text), placed: null }
  if (text === undefined) return { size: null, placed: sizeOf(store.read(path)) === size ? 'before' : null }
  if (sizeOf(text) !== size) return { size: sizeOf(text), placed: null }
  store.write(path, text)
  store.write(temporary, undefined)
  return { size: null, placed: 'now' }
}

/** Keeps what comes in memory until it is finished or closed. */
export function simulatedAppend(
  store: FileStore,
  target: Target,
  offset: number,
  step: () => Promise<void>,
): UploadAppend {
  const temporary = temporaryOf(target)
  const text = store.read(temporary)
  if (text === undefined) return refuse('upload_lost')
  if (sizeOf(text) !== offset) refuse('upload_offset')
  const parts = [asBytes(text)]
  const keep = () => store.write(temporary, asText(Buffer.concat(parts)))
  return {
    write: async (bytes) => {
      await step()
      parts.push(bytes)
    },
    finish: async () => {
      await step()
      keep()
    },
    close: keep,
  }
}
