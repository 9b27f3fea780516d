/**
 * What a call costs: with this package one at a time and four in flight, and with virsh.
 *
 *   node scripts/bench.ts [--socket <path>] [--uri qemu:///system]
 *
 * Without a socket it starts a private libvirtd (root) with the test driver.
 */
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { Connection } from '../src/connection.ts'
import { LibvirtHost } from '../src/host.ts'
import { PrivateLibvirtd } from '../src/testing/private-libvirtd.ts'

const callsPerRun = 20_000
const openTimeoutMs = 10_000

async function callsPerSecond(connection: Connection, inFlight: number): Promise<{ perSecond: number; p50Us: number }> {
  const times: number[] = []
  let left = callsPerRun
  const worker = async () => {
    while (left-- > 0) {
      const start = performance.now()
      await connection.call('connectGetLibVersion', {})
      times.push(performance.now() - start)
    }
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: inFlight }, worker))
  const seconds = (performance.now() - start) / 1_000
  times.sort((a, b) => a - b)
  return { perSecond: Math.round(callsPerRun / seconds), p50Us: Math.round((times[times.length >> 1] ?? 0) * 1_000) }
}

async function hostCallsPerSecond(host: LibvirtHost, inFlight: number): Promise<number> {
  let left = callsPerRun
  const worker = async () => {
    while (left-- > 0) await host.libraryVersion()
  }
  const start = performance.now()
  await Promise.all(Array.from({ length: inFlight }, worker))
  return Math.round((callsPerRun * 1_000) / (performance.now() - start))
}

function virshMs(socketPath: string, driver: string): number | undefined {
  const uri = `${driver.replace(':///', '+unix:///')}?socket=${socketPath}`
  const start = performance.now()
  const runs = 10
  for (let run = 0; run < runs; run++) {
    if (spawnSync('virsh', ['-q', '-c', uri, 'version', '--daemon']).status !== 0) return undefined
  }
  return (performance.now() - start) / runs
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { socket: { type: 'string' }, uri: { type: 'string' } } })
  await using libvirtd = values.socket ? undefined : await PrivateLibvirtd.start()
  const socketPath = values.socket ?? libvirtd?.socketPath ?? ''
  const uri = values.uri ?? (libvirtd ? 'test:///default' : 'qemu:///system')
  const connection = await Connection.open({ address: { socketPath }, uri, openTimeoutMs })
  await callsPerSecond(connection, 1)
  const one = await callsPerSecond(connection, 1)
  const four = await callsPerSecond(connection, 4)
  connection.close()
  using host = await LibvirtHost.open({ socketPath, uri })
  const rows: Record<string, string> = {
    'one at a time': `${one.perSecond} calls/s, p50 ${one.p50Us} µs`,
    'four in flight': `${four.perSecond} calls/s, p50 ${four.p50Us} µs`,
    'through a host, one at a time': `${await hostCallsPerSecond(host, 1)} calls/s`,
    'through a host, sixteen asked at once': `${await hostCallsPerSecond(host, 16)} calls/s`,
    'virsh, a process per call': `${virshMs(socketPath, uri)?.toFixed(1) ?? '?'} ms a call`,
  }
  for (const [name, figure] of Object.entries(rows)) console.log(`${name.padEnd(40)} ${figure}`)
}

await main()
