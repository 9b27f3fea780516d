// Checks that a tar archive has come whole: it ends with two blocks of zeros. A tar in a guest takes one that was cut between two
// files for a whole one.
import { refuse } from '@dormouse/contract'
import type { FileUpload } from '../driver/guest-transport.ts'
import { noArchive } from '../scripts/file-failures.ts'

const endBytes = 1024

/** Commits only what ends as an archive does. */
export function checkedArchive(upload: FileUpload): FileUpload {
  let zeros = 0
  return {
    write: (bytes) => {
      const tail = bytes.subarray(-endBytes)
      const last = tail.findLastIndex((byte) => byte !== 0)
      zeros = last === -1 ? zeros + tail.length : tail.length - 1 - last
      return upload.write(bytes)
    },
    commit: async () => (zeros >= endBytes ? upload.commit() : refuse('invalid_request', noArchive)),
    abandon: () => upload.abandon(),
  }
}
