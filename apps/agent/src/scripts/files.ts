// What our program says of files and uploads. A guest may say anything: `guest_unavailable` if that is no answer. Pure.
import { refuse, type UploadCommand, type UploadResult } from '@dormouse/contract'
import { noRecords } from './supervisor.ts'

/** Up to this size a file is read before its size is sent: what the kernel makes when it is read has another one, or none. */
export const sureMaxBytes = 1024 * 1024

/** The first line of a file that is read. */
export function parseVersion(line: string): { size: number; version: string } {
  const [, size, version] =
    /^(\d{1,15}) ([\w.-]{1,80})$/.exec(line) ?? refuse('guest_unavailable', 'the guest did not report the file’s size')
  return { size: Number(size), version: version! }
}

export type UploadTarget = Pick<UploadCommand, 'path' | 'uploadId'>

export function uploadWords({ step, path, uploadId, owner, mode, size }: UploadCommand): (string | number)[] {
  const words = [noRecords, `upload.${step}`, path, uploadId, owner ?? '']
  return step === 'place' ? [...words, mode ?? '', size ?? 0] : words
}

export function parseUpload(printed: Buffer): UploadResult {
  const [, placed, size] =
    /^(?:(now|before)\n)?(none|\d{1,15})\n$/.exec(printed.toString('latin1')) ??
    refuse('guest_unavailable', 'the guest did not report the upload')
  return { size: size === 'none' ? null : Number(size), placed: (placed as 'now' | 'before' | undefined) ?? null }
}

/** Refuses unless the printed size is the offset. */
export function checkOffset(printed: string, offset: number): void {
  if (printed === 'none') refuse('upload_lost', 'the upload’s file is no longer in the guest')
  if (!/^\d{1,15}$/.test(printed)) refuse('guest_unavailable', 'the guest did not report the upload’s size')
  if (Number(printed) !== offset) refuse('upload_offset', `the upload has ${printed} bytes`)
}
