/**
 * Holds our procedure table and constants against a distribution's libvirt: the `.x` files of the source package and
 * the `libvirt-api.xml` of libvirt-dev. Nothing of them is kept or copied; run it when the table changes.
 *
 *   node scripts/check-table.ts <folder with the unpacked source> <folder with the unpacked libvirt-dev>
 *
 * On Debian: `apt-get source --download-only libvirt && tar xf libvirt_*.orig.tar.xz`, and
 * `apt-get download libvirt-dev && dpkg-deb -x libvirt-dev_*.deb dev`.
 */
import { globSync, readFileSync } from 'node:fs'
import * as constants from '../src/constants.ts'
import { errorBody, events, procedures, programs } from '../src/protocol.ts'
import type { Codec } from '../src/xdr.ts'
import { readApi } from './check-table/api-xml.ts'
import { type RpcFile, readProtocol } from './check-table/rpc-file.ts'

/** The prefix of each group of constants in libvirt's public API. */
const prefixes: Record<keyof typeof constants, string> = {
  errorCode: 'VIR_ERR_',
  domainState: 'VIR_DOMAIN_',
  runningReason: 'VIR_DOMAIN_RUNNING_',
  pausedReason: 'VIR_DOMAIN_PAUSED_',
  shutoffReason: 'VIR_DOMAIN_SHUTOFF_',
  lifecycleEvent: 'VIR_DOMAIN_EVENT_',
  definedDetail: 'VIR_DOMAIN_EVENT_DEFINED_',
  undefinedDetail: 'VIR_DOMAIN_EVENT_UNDEFINED_',
  startedDetail: 'VIR_DOMAIN_EVENT_STARTED_',
  suspendedDetail: 'VIR_DOMAIN_EVENT_SUSPENDED_',
  resumedDetail: 'VIR_DOMAIN_EVENT_RESUMED_',
  stoppedDetail: 'VIR_DOMAIN_EVENT_STOPPED_',
  shutdownDetail: 'VIR_DOMAIN_EVENT_SHUTDOWN_',
  pmsuspendedDetail: 'VIR_DOMAIN_EVENT_PMSUSPENDED_',
  crashedDetail: 'VIR_DOMAIN_EVENT_CRASHED_',
  agentState: 'VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_',
  agentReason: 'VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_REASON_',
  listDomainsFlag: 'VIR_CONNECT_LIST_DOMAINS_',
  createFlag: 'VIR_DOMAIN_START_',
  destroyFlag: 'VIR_DOMAIN_DESTROY_',
  undefineFlag: 'VIR_DOMAIN_UNDEFINE_',
  saveFlag: 'VIR_DOMAIN_SAVE_',
  snapshotFlag: 'VIR_DOMAIN_SNAPSHOT_CREATE_',
  xmlFlag: 'VIR_DOMAIN_XML_',
  metadataType: 'VIR_DOMAIN_METADATA_',
  affect: 'VIR_DOMAIN_AFFECT_',
  blockResizeFlag: 'VIR_DOMAIN_BLOCK_RESIZE_',
  setTimeFlag: 'VIR_DOMAIN_TIME_',
  jobType: 'VIR_DOMAIN_JOB_',
  jobStatsFlag: 'VIR_DOMAIN_JOB_STATS_',
  jobOperation: 'VIR_DOMAIN_JOB_OPERATION_',
  statsGroup: 'VIR_DOMAIN_STATS_',
  statsFlag: 'VIR_CONNECT_GET_ALL_DOMAINS_STATS_',
  migrateFlag: 'VIR_MIGRATE_',
  cpuCompareResult: 'VIR_CPU_COMPARE_',
  compareCpuFlag: 'VIR_CONNECT_COMPARE_CPU_',
  networkUpdateCommand: 'VIR_NETWORK_UPDATE_COMMAND_',
  networkSection: 'VIR_NETWORK_SECTION_',
  networkAffect: 'VIR_NETWORK_UPDATE_AFFECT_',
  poolState: 'VIR_STORAGE_POOL_',
  volumeCreateFlag: 'VIR_STORAGE_VOL_CREATE_',
}

const problems: string[] = []
let compared = 0

function same(what: string, ours: unknown, theirs: unknown): void {
  compared++
  if (ours !== theirs) problems.push(`${what}: ours ${String(ours)}, theirs ${String(theirs)}`)
}

/** `domainDefineXMLFlags` → `DOMAIN_DEFINE_XML_FLAGS`. */
function screaming(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])/g, '$1$3_$2$4').toUpperCase()
}

function checkProcedures(files: Map<number, RpcFile>, functions: Set<string>): void {
  for (const [name, ours] of Object.entries(procedures)) {
    const file = files.get(ours.program)
    if (!file) throw new Error(`no .x file of the program ${ours.program.toString(16)}`)
    const theirs = file.procedures.get(screaming(name))
    same(`${name} number`, ours.number, theirs?.number)
    same(`${name} high priority`, ours.high, theirs?.high)
    same(`${name} arguments`, ours.args.shape, file.shape(`${screaming(name).toLowerCase()}_args`))
    same(`${name} result`, ours.result.shape, file.shape(`${screaming(name).toLowerCase()}_ret`))
    const api = `vir${name[0]?.toUpperCase()}${name.slice(1)}`
    const known = [
      api,
      api.replace(/Flags$/, ''),
      api.replace('EventCallback', 'Event'),
      api.replace('Agent', 'QemuAgent'),
      api.replace('Nwfilter', 'NWFilter'),
    ]
    if (!/^auth|SupportsFeature|Migrate(Begin|Prepare|Perform|Finish|Confirm)3/.test(name))
      same(
        `${name} public`,
        known.some((it) => functions.has(it)),
        true,
      )
  }
}

function checkEvents(remote: RpcFile, values: Map<string, number>): void {
  for (const [name, ours] of Object.entries(events)) {
    same(`${name} number`, ours.number, remote.procedures.get(screaming(name))?.number)
    same(`${name} body`, ours.body.shape, remote.shape(`${screaming(name).toLowerCase()}_msg`))
    const id = screaming(name.replace('domainEventCallback', ''))
    same(`${name} event`, ours.event, values.get(`VIR_DOMAIN_EVENT_ID_${id}`))
  }
}

function checkConstants(values: Map<string, number>): void {
  for (const [group, numbers] of Object.entries(constants)) {
    const prefix = prefixes[group as keyof typeof constants]
    for (const [name, ours] of Object.entries(numbers)) {
      same(`${group}.${name}`, ours, values.get(prefix + screaming(name)))
    }
  }
}

function main([source, dev]: string[]): void {
  if (!source || !dev) throw new Error('usage: check-table.ts <unpacked libvirt source> <unpacked libvirt-dev>')
  const found = (pattern: string, under: string) =>
    globSync(`**/${pattern}`, { cwd: under }).map((path) => readFileSync(`${under}/${path}`, 'utf8'))
  const [remoteText] = found('remote_protocol.x', source)
  const [qemuText] = found('qemu_protocol.x', source)
  const api = readApi([...found('libvirt-api.xml', dev), ...found('libvirt-qemu-api.xml', dev)])
  if (!remoteText || !qemuText || api.functions.size === 0) throw new Error('not all of libvirt’s files were found')
  const remote = readProtocol(remoteText, 'remote', api.values)
  const qemu = readProtocol(`${remoteText}\n${qemuText}`, 'qemu', api.values)
  same('remote program', programs.remote, remote.constants.get('REMOTE_PROGRAM'))
  same('qemu program', programs.qemu, qemu.constants.get('QEMU_PROGRAM'))
  same('error', (errorBody as Codec<unknown>).shape, remote.shape('error'))
  checkProcedures(
    new Map([
      [programs.remote, remote],
      [programs.qemu, qemu],
    ]),
    api.functions,
  )
  checkEvents(remote, api.values)
  checkConstants(api.values)
  for (const problem of problems) console.error(problem)
  console.log(
    `${compared} facts compared, ${problems.length} differ (${remote.procedures.size} procedures known there)`,
  )
  if (problems.length > 0) process.exitCode = 1
}

main(process.argv.slice(2))
