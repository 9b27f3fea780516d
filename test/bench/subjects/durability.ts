// What one operation writes: statements, commits and row updates in the database, fsyncs and renames at its host. Counted, not timed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readLive } from '../../../scripts/testbed/processes.ts'
import { waitFor } from '../../wait-for.ts'
import type { Service } from '../service.ts'
import { statementsOf } from '../statements.ts'
import {
  type Bench,
  eachSide,
  type Measured,
  type Rounds,
  type Row,
  rowOf,
  type Side,
  type Subject,
} from '../subject.ts'

/** Written at a steady pace, whatever runs: not the cost of an operation. */
const steady = ['leadership', 'replicas', 'hosts']
const counted: { of: string; name: string; goal?: number }[] = [
  { of: 'statements', name: 'statements of one operation' },
  { of: 'commits', name: 'commits of one operation', goal: 3 },
  { of: 'updates', name: 'row updates of one operation', goal: 6 },
  { of: 'inserts', name: 'row inserts of one operation' },
  { of: 'syncs', name: 'fsyncs at the host of one operation', goal: 3 },
  { of: 'renames', name: 'renames at the host of one operation', goal: 0 },
]
const idleMs = 3_000
const pairs = 50

export const durability: Subject = {
  name: 'durability',
  what: 'statements, commits, row updates, fsyncs and renames of one operation, one at a time; the mean of wake and hibernate',
  hosts: 'simulated',
  seconds: { fixed: 15, perRound: 0 },
  run: async (bench) => {
    const taken: Rounds = {}
    for (const [side, measure] of Object.entries(eachSide(bench.sides, (service) => writesOf(service, bench))))
      taken[side as Side] = [await measure()]
    return counted
      .filter(({ of }) => taken.ours?.[0]?.[of] !== undefined)
      .map(({ of, name, goal }): Row => {
        const row = { subject: 'durability', name, unit: 'count', better: 'less' } as const
        return rowOf(taken, { ...row, of, ...(goal !== undefined && { goal: { figure: goal } }) })
      })
  },
}

async function writesOf(service: Service, { say }: Bench): Promise<Measured> {
  const [id] = await service.create(1)
  await run(service, id!, 1)
  const idleFrom = await written(service)
  await sleep(idleMs)
  const idle = difference(await written(service), idleFrom)
  const from = await written(service)
  const began = performance.now()
  await run(service, id!, pairs)
  const tookMs = performance.now() - began
  const delta = difference(await written(service), from)
  // The tables that are written at a steady pace are not counted; statements and commits are all that there are.
  const each = (name: keyof Written) => {
    const steadily = name === 'commits' || name === 'statements' ? (idle[name] * tookMs) / idleMs : 0
    return rounded((delta[name] - steadily) / (pairs * 2))
  }
  const database = {
    statements: each('statements'),
    commits: each('commits'),
    updates: each('updates'),
    inserts: each('inserts'),
  }
  if (!existsSync('/usr/bin/strace')) {
    say('fsyncs and renames are not counted: install strace')
    return database
  }
  return { ...database, ...(await tracedAt(service, id!)) }
}

async function run(service: Service, id: string, times: number): Promise<void> {
  const connection = service.connect()
  for (let at = 0; at < times * 2; at++) {
    const verb = at % 2 === 0 ? 'wake' : 'hibernate'
    const { status, body } = await connection.send('POST', `/v1/desktops/${id}/${verb}?wait=true`)
    if (status !== 200) throw new Error(`${verb}: ${status} ${body}`)
  }
  connection.close()
}

type Written = Record<'statements' | 'commits' | 'updates' | 'inserts', number>

/** What the sessions of the control plane have written so far. A session reports its counts when it ends, so all end. */
async function written({ database }: Service): Promise<Written> {
  await database.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity
      where datname = current_database() and application_name = 'dormouse' and state = 'idle'`,
  )
  const { rows } = await database.query<{ commits: string; updates: string; inserts: string }>(
    `select (select xact_commit from pg_stat_database where datname = current_database()) as commits,
            sum(n_tup_upd) as updates, sum(n_tup_ins) as inserts
       from pg_stat_user_tables where relname <> all($1)`,
    [steady],
  )
  const { commits, updates, inserts } = rows[0]!
  const statements = await statementsOf(database)
  return { statements, commits: Number(commits), updates: Number(updates), inserts: Number(inserts) }
}

function difference<T extends Record<string, number>>(after: T, before: T): T {
  return Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - before[name]!])) as T
}

/** Counts the system calls of all hosts while operations run. A traced process is slower; the counts are the same. */
async function tracedAt(service: Service, id: string): Promise<Measured> {
  const calls = 'fsync,fdatasync,sync_file_range,syncfs,rename,renameat,renameat2'
  const output = join(service.folder, 'syscalls')
  const hosts = service.hosts.flatMap((host) => ['-p', String(host.pid)])
  const strace = spawn('strace', ['-f', '-q', '-e', `trace=${calls}`, '-o', output, ...hosts], { stdio: 'ignore' })
  const ended = once(strace, 'exit')
  await waitFor('strace to attach', () => service.hosts.every((host) => isTraced(host.pid!)))
  await run(service, id, pairs)
  strace.kill('SIGINT')
  await ended
  // A call that another thread interrupts has two lines; the second begins with `<... fsync resumed>`.
  const lines = readFileSync(output, 'utf8').split('\n')
  const count = (call: RegExp) => rounded(lines.filter((line) => call.test(line)).length / (pairs * 2))
  return {
    syncs: count(/^\d+ +(fsync|fdatasync|sync_file_range|syncfs)\(/),
    renames: count(/^\d+ +rename/),
  }
}

/** Whether another process traces it. */
function isTraced(pid: number): boolean {
  const status = readLive(() => readFileSync(`/proc/${pid}/status`, 'utf8'))
  return status !== undefined && !/^TracerPid:\s+0$/m.test(status)
}

const rounded = (value: number) => Math.round(value * 10) / 10
