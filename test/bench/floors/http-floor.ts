// Starts the floor of reads, `http.ts`, in its process.
import { join } from 'node:path'
import { Child } from '../../crash/child.ts'
import { freePort } from '../../free-port.ts'
import { waitFor } from '../../wait-for.ts'
import { Connection } from '../connection.ts'
import { cpuMs } from '../cpu.ts'
import { thisCheckout } from '../service.ts'

export interface HttpFloor {
  url: string
  /** A keep-alive connection with its key. */
  connect(): Connection
  /** CPU time that it has used so far, in ms. */
  cpuMs(): number
  stop(): Promise<void>
}

const key = 'floor'

/** On that database's table of desktops; its log goes to a file in the folder. */
export async function startHttpFloor(databaseUrl: string, folder: string): Promise<HttpFloor> {
  const port = String(await freePort())
  const url = `http://127.0.0.1:${port}`
  const program = new Child({
    checkout: thisCheckout,
    file: 'test/bench/floors/http.ts',
    env: { DATABASE_URL: databaseUrl, KEY: key, PORT: port },
    logFile: join(folder, 'floor.log'),
  })
  program.start()
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    )
  await waitFor('the floor to listen', answers)
  return {
    url,
    connect: () => new Connection(url, key),
    cpuMs: () => cpuMs(program.pid!),
    stop: () => program.kill('SIGTERM'),
  }
}
