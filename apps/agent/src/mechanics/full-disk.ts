// A full disk, as the file system reports it and as callers are refused.
import { refuse } from '@dormouse/contract'

/** Whether a write failed because the disk or the quota is full. */
export const isFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')

export const refuseFull = () =>
  refuse('host_disk_full', 'the host has no disk space left to write to; nothing was lost')

/** For `.catch`: a full disk becomes a refusal, any other error is thrown as it is. */
export function diskFull(error: unknown): never {
  if (isFull(error)) refuseFull()
  throw error
}
