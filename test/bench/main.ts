// `npm run bench`: what the house adds to its floors, each measured beside its floor in one run. Figures, no verdicts.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Instance } from '../real/instance.ts'
import { getRates } from './get-rate.ts'
import { guestFigures } from './guest.ts'
import { twinOf } from './raw-guest.ts'

const { values } = parseArgs({
  options: { help: { type: 'boolean' }, json: { type: 'boolean' }, rounds: { type: 'string', default: '9' } },
})
if (values.help)
  console.log(
    'npm run bench -- [--rounds 9] [--json]   wake and hibernate beside bare libvirt, guests beside bare SSH, GET beside bare Fastify',
  )
else await main(Number(values.rounds))

async function main(rounds: number): Promise<void> {
  const say = (line: string) => values.json || console.log(line)
  say('Starting real desktops…')
  await using instance = await Instance.start()
  const desktop = await instance.create()
  await desktop.wake()
  // Its keys are on the disk before that is copied.
  await desktop.commands.run('sync')
  const short = `/run/dormouse-${readFileSync(join(instance.dataDir, 'short-name'), 'utf8').trim()}`
  const twin = await twinOf(`${short}/libvirt/run/libvirt-sock`, desktop.id, short)
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
  const guest = await guestFigures({ instance, desktop, twin, rounds })
  await twin.end()
  const rates = await getRates(instance, desktop.id)
  const figures = Object.fromEntries(Object.entries(times).map(([name, all]) => [name, spread(all)]))
  if (values.json) console.log(JSON.stringify({ milliseconds: figures, ...rates, guest }, null, 2))
  else {
    console.table(figures)
    console.table(rates)
    for (const figure of Object.values(guest)) console.table(figure)
  }
}

function spread(all: number[]) {
  const sorted = all.toSorted((a, b) => a - b)
  const at = (part: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]! * 10) / 10
  return { min: at(0), p50: at(0.5), max: at(1) }
}
