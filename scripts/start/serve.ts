// What a user sees once everything runs: the tour, the addresses and keys, and which replica leads.
import { existsSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createAdminClient, createClient } from '@dormouse/client'
import type { Service } from './bring-up.ts'
import { followLead, leaderOf } from './lead.ts'
import type { StartOptions } from './options.ts'
import type { Replica } from './replicas.ts'
import type { Run } from './run.ts'
import { tour } from './tour.ts'
import { tourOfHosts } from './tour-of-hosts.ts'

/** Announces the instance; never resolves. */
export async function serve(run: Run, { replicas, apiKey, operatorKey, hosts }: Service): Promise<never> {
  const { options, instance, say, step } = run
  const urls = replicas.map(({ url }) => url)
  const baseUrl = (await leaderOf(urls)) ?? urls[0]!
  const toured = instance.path('toured')
  if (options.tour ?? (!options.simulated && !existsSync(toured))) {
    say('\nA short tour: a desktop hibernates and wakes, and nothing is lost.')
    const desktop = await tour(createClient({ baseUrl, apiKey }), say)
    if (hosts > 1) {
      say('\nAnd its host is emptied while it works.')
      await tourOfHosts(createAdminClient({ baseUrl, operatorKey }), desktop, say)
    }
    writeFileSync(toured, '')
  }
  instance.announce(baseUrl)
  say('')
  step('ready')
  say(summary(options, baseUrl, apiKey))
  if (replicas.length > 1) showLeader(run, replicas, baseUrl)
  return new Promise(() => {})
}

/** Keeps `local.json` on the replica that leads, so that `npx dormouse` finds it. */
function showLeader({ instance, say, onStop }: Run, replicas: Replica[], first: string): void {
  const urls = replicas.map(({ url }) => url)
  const show = (url: string, role: string) => {
    const at = urls.indexOf(url)
    say(`Replica ${at + 1} (${url}) ${role}; to see another take over: kill -9 ${replicas[at]!.process.pid}`)
  }
  say(
    `\n${urls.length} control planes: ${urls.join(' and ')}. Each serves reads and guests; only the leader makes changes.`,
  )
  show(first, 'leads')
  const stop = followLead(urls, first, (url) => {
    instance.announce(url)
    show(url, 'leads now')
    say(`The base URL is now ${url}`)
  })
  onStop('the watch over the leader', stop)
}

const summary = ({ dataDir, simulated }: StartOptions, baseUrl: string, apiKey: string) => `
  Base URL  ${baseUrl}
  API key   ${apiKey}
  API docs  ${baseUrl}/docs

  curl -s ${baseUrl}/v1/desktops -H 'Authorization: Bearer ${apiKey}'
  curl -s ${baseUrl}/v1/desktops -H 'Authorization: Bearer ${apiKey}' -d '{"tier":"small"}'
  curl -s -X POST '${baseUrl}/v1/desktops/<id>/wake?wait=true' -H 'Authorization: Bearer ${apiKey}'

${dataDir === resolve('.dormouse') ? '' : `  export DORMOUSE_DATA='${dataDir}'\n`}  npx dormouse list
  npx dormouse create --tier small --wake
  npx dormouse exec <id> -- uname -a
  npx dormouse open <id>
${simulated ? '\nA simulated guest runs the programs of this machine, with a disk of its own and without a network.\n' : ''}
Press Ctrl-C to hibernate the awake desktops and stop everything.`
