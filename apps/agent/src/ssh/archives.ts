// Folders as tar archives over a guest's SSH connection: the guest's own tar packs and unpacks them.
import { randomBytes } from 'node:crypto'
import type { FileDownload, FileUpload } from '../driver/guest-transport.ts'
import { packScript, placeScript, type UnpackTarget, unpacked, unpackScript } from '../scripts/archives.ts'
import { abandonScript, removeScript } from '../scripts/files.ts'
import type { SshConnection } from './connection.ts'
import { downloadOf, SshUpload } from './files.ts'

export const openArchiveOverSsh = (connection: SshConnection, path: string): Promise<FileDownload> =>
  downloadOf(connection, packScript(path))

export const unpackOverSsh = (connection: SshConnection, target: UnpackTarget): Promise<FileUpload> =>
  SshUpload.start(connection, unpackScript(target, randomBytes(12).toString('hex')), (place) => ({
    commit: () => placeScript(place, target.owner),
    abandon: abandonScript(place, unpacked),
    remove: removeScript(place, unpacked),
  }))
