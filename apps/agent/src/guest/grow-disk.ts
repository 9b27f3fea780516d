// A guest whose disk has grown while it runs has still to grow its file system. One that does not do it here does it when it boots.
import type { DesktopId } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Guests } from './guests.ts'

const command = 'resize2fs /dev/vda'
const timeoutSecs = 300

/** Never throws. */
export async function growFileSystem(
  { guests, log }: { guests: Pick<Guests, 'guest'>; log: Log },
  desktopId: DesktopId,
  generation: number,
): Promise<void> {
  try {
    const request = { desktopId, generation, command, cwd: null, env: {}, stdin: null, timeoutSecs }
    const { exitCode } = await guests.guest(desktopId).exec(request)
    log.info({ desktopId, exitCode }, 'a guest has grown its file system')
  } catch (error) {
    log.warn({ err: error, desktopId }, 'a guest has not grown its file system; it does when it boots')
  }
}
