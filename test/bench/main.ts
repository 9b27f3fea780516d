// `npm run bench`: what the house adds to its floors, each measured beside its floor in one run. Figures, no verdicts.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Desktop } from '@dormouse/client'
import { readOrExit } from '../../scripts/arguments.ts'
import { Instance } from '../real/parts/instance.ts'
import { reachedOver } from '../real/parts/transports.ts'
import { getRates } from './get-rate.ts'
import { guestFigures } from './guest.ts'
import { type RawGuest, twinOf } from './raw-guest.ts'

const { values } = readOrExit(() =>
  parseArgs({
    options: {
      help: { type: 'boolean' },
      json: { type: 'boolean' },
      guest: { type: 'boolean' },
      rounds: { type: 'string', default: '9' },
    },
  }),
)
if (values.help)
  console.log(`npm run bench -- [--rounds 9] [--guest] [--json]

Wake and hibernate beside bare libvirt, commands and files beside bare SSH, GET beside bare Fastify; --guest: commands and
files alone.`)
else await main(Number(values.rounds))

async function main(rounds: number): Promise<void> {
  const say = (line: string) => values.json || console.log(line)
  say('Starting real desktops…')
  await using instance = await Instance.start()
  const desktop = await instance.create()
  await desktop.wake()
  // Its keys are on the disk before that is copied.
  await reachedOver(desktop, 'ssh')
  await desktop.commands.run('sync')
  const short = `/run/dormouse-${readFileSync(join(instance.dataDir, 'short-name'), 'utf8').trim()}`
  const twin = await twinOf(`${short}/libvirt/run/libvirt-sock`, desktop.id, short)
  const shown: Record<string, unknown> = {}
  const show = (figures: Record<string, unknown>) => {
    Object.assign(shown, figures)
    if (values.json) return
    for (const [name, figure] of Object.entries(figures)) {
      console.log(`\n${name}`)
      console.table(figure)
    }
  }
  if (!values.guest) show({ milliseconds: await powerFigures(desktop, twin, rounds, say) })
  show(await guestFigures({ instance, desktop, twin, rounds }))
  await twin.end()
  if (!values.guest) show(await getRates(instance, desktop.id))
  if (values.json) console.log(JSON.stringify(shown, null, 2))
}

async function powerFigures(desktop: Desktop, twin: RawGuest, rounds: number, say: (line: string) => unknown) {
  const times: Record<string, number[]> = {
    'hibernate, API': [],
    'save, libvirt': [],
    'wake, API': [],
    'restore, libvirt': [],
  }
  const timed = async (name: string, work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    times[name]!.push(performance.now() - began)
  }
  for (let round = 0; round < rounds; round++) {
    say(`round ${round + 1} of ${rounds}`)
    await timed('hibernate, API', () => desktop.hibernate())
    times['save, libvirt']!.push(await twin.save())
    await timed('wake, API', () => desktop.wake())
    times['restore, libvirt']!.push(await twin.restore())
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, spread(all)]))
}

function spread(all: number[]) {
  const sorted = all.toSorted((a, b) => a - b)
  const at = (part: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]! * 10) / 10
  return { min: at(0), p50: at(0.5), max: at(1) }
}
