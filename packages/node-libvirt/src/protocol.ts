/**
 * The table of libvirt's procedures: number, shapes of arguments and result, whether the daemon reserves threads for it, and
 * the direction of its stream. It is our own list, with the names of libvirt's public API; `scripts/check-table.ts` compares
 * it with the distribution's packages.
 */
import {
  bytes,
  type Codec,
  characters,
  flag,
  i32,
  i64,
  list,
  type Of,
  optional,
  record,
  text,
  typedValue,
  u32,
  u64,
  uuid,
} from './xdr.ts'

export const programs = { remote: 0x20008086, qemu: 0x20008087, keepalive: 0x6b656570 } as const

const domainRef = record({ name: text, uuid, id: i32 })
const networkRef = record({ name: text, uuid })
const poolRef = record({ name: text, uuid })
const volumeRef = record({ pool: text, name: text, key: text })
const dhcpLease = record({
  bridge: text,
  expiresSecs: i64,
  type: i32,
  mac: optional(text),
  associationId: optional(text),
  ip: text,
  prefix: u32,
  hostName: optional(text),
  clientId: optional(text),
})
const filterRef = record({ name: text, uuid })
const typedParam = record({ name: text, value: typedValue })

/** A domain in the protocol; `id` is −1 while it does not run. */
export type DomainRef = Of<typeof domainRef>
export type NetworkRef = Of<typeof networkRef>
export type PoolRef = Of<typeof poolRef>
export type VolumeRef = Of<typeof volumeRef>
export type TypedParam = Of<typeof typedParam>

/** What follows the header of a reply whose status is "error". */
export const errorBody = record({
  code: i32,
  domain: i32,
  message: optional(text),
  level: i32,
  about: optional(domainRef),
  str1: optional(text),
  str2: optional(text),
  str3: optional(text),
  int1: i32,
  int2: i32,
  network: optional(networkRef),
})

export interface Procedure<A, R> {
  program: number
  number: number
  args: Codec<A>
  result: Codec<R>
  /** The daemon reserves threads for it: it works even if every ordinary thread is stuck. */
  high: boolean
}

type Fields = Record<string, Codec<unknown>>
type Values<F extends Fields> = { [K in keyof F]: Of<F[K]> }
type Traits = { high?: true; program?: number }

function procedure<A extends Fields, R extends Fields>(
  number: number,
  args: A,
  result: R,
  { high, program = programs.remote }: Traits = {},
): Procedure<Values<A>, Values<R>> {
  return { program, number, args: record(args), result: record(result), high: high === true }
}

const high = { high: true } as const satisfies Traits
const domain = domainRef
const flags = u32
const network = networkRef
const params = list(typedParam)
const pool = poolRef
const volume = volumeRef
const xml = text
const all = { wantResults: i32, flags }

export const procedures = {
  connectOpen: procedure(1, { uri: optional(text), flags }, {}, high),
  connectGetVersion: procedure(4, {}, { version: u64 }, high),
  connectGetCapabilities: procedure(7, {}, { xml }),
  connectGetHostname: procedure(59, {}, { hostname: text }, high),
  connectGetLibVersion: procedure(157, {}, { version: u64 }, high),
  connectGetDomainCapabilities: procedure(
    342,
    { emulator: optional(text), arch: optional(text), machine: optional(text), virtType: optional(text), flags },
    { xml },
  ),
  connectCompareHypervisorCPU: procedure(
    393,
    {
      emulator: optional(text),
      arch: optional(text),
      machine: optional(text),
      virtType: optional(text),
      cpu: text,
      flags,
    },
    { result: i32 },
  ),
  connectDomainEventCallbackRegisterAny: procedure(
    316,
    { event: i32, domain: optional(domain) },
    { callback: i32 },
    high,
  ),
  connectListAllDomains: procedure(273, all, { domains: list(domain), count: u32 }, high),
  connectListAllStoragePools: procedure(281, all, { pools: list(pool), count: u32 }, high),
  connectListAllNetworks: procedure(283, all, { networks: list(network), count: u32 }, high),
  connectGetAllDomainStats: procedure(
    344,
    { domains: list(domain), groups: u32, flags },
    { records: list(record({ domain, params })) },
  ),

  authList: procedure(66, {}, { types: list(i32) }, high),
  authPolkit: procedure(70, {}, { complete: i32 }, high),

  nodeGetInfo: procedure(
    6,
    {},
    {
      model: characters(32),
      memoryKiB: u64,
      cpus: i32,
      mhz: i32,
      nodes: i32,
      sockets: i32,
      cores: i32,
      threads: i32,
    },
    high,
  ),

  domainLookupByName: procedure(23, { name: text }, { domain }, high),
  domainLookupByUUID: procedure(24, { uuid }, { domain }, high),
  domainDefineXMLFlags: procedure(350, { xml, flags }, { domain }, high),
  domainCreateXML: procedure(10, { xml, flags }, { domain }),
  domainCreateWithFlags: procedure(196, { domain, flags }, { domain }),
  domainGetState: procedure(212, { domain, flags }, { state: i32, reason: i32 }, high),
  domainSuspend: procedure(34, { domain }, {}),
  domainResume: procedure(28, { domain }, {}),
  domainDestroyFlags: procedure(234, { domain, flags }, {}, high),
  domainUndefineFlags: procedure(231, { domain, flags }, {}, high),
  domainSaveFlags: procedure(232, { domain, path: text, xml: optional(text), flags }, {}),
  domainSaveParams: procedure(440, { domain, params, flags }, {}),
  domainRestoreFlags: procedure(233, { path: text, xml: optional(text), flags }, {}),
  domainSaveImageGetXMLDesc: procedure(235, { path: text, flags }, { xml }, high),
  domainGetXMLDesc: procedure(14, { domain, flags }, { xml }),
  domainGetMetadata: procedure(265, { domain, type: i32, uri: optional(text), flags }, { metadata: text }),
  domainSetMetadata: procedure(
    264,
    { domain, type: i32, metadata: optional(text), key: optional(text), uri: optional(text), flags },
    {},
  ),
  domainAttachDeviceFlags: procedure(160, { domain, xml, flags }, {}),
  domainDetachDeviceFlags: procedure(161, { domain, xml, flags }, {}),
  domainBlockResize: procedure(251, { domain, disk: text, bytes: u64, flags }, {}),
  domainSetSchedulerParametersFlags: procedure(219, { domain, params, flags }, {}),
  domainSetBlockIoTune: procedure(252, { domain, disk: text, params, flags }, {}),
  domainSetInterfaceParameters: procedure(256, { domain, device: text, params, flags }, {}),
  domainSetTime: procedure(338, { domain, seconds: i64, nanoseconds: u32, flags }, {}),
  domainGetJobStats: procedure(298, { domain, flags }, { type: i32, params }),
  domainGetJobInfo: procedure(
    163,
    { domain },
    {
      type: i32,
      timeElapsed: u64,
      timeRemaining: u64,
      dataTotal: u64,
      dataProcessed: u64,
      dataRemaining: u64,
      memTotal: u64,
      memProcessed: u64,
      memRemaining: u64,
      fileTotal: u64,
      fileProcessed: u64,
      fileRemaining: u64,
    },
  ),
  domainAbortJob: procedure(164, { domain }, {}),
  domainAgentSetResponseTimeout: procedure(420, { domain, timeoutSecs: i32, flags }, { result: i32 }),
  domainSnapshotCreateXML: procedure(185, { domain, xml, flags }, { snapshot: text, domain }),
  domainMigrateBegin3Params: procedure(302, { domain, params, flags }, { cookie: bytes, xml }),
  domainMigratePrepare3Params: procedure(
    303,
    { params, cookie: bytes, flags },
    { cookie: bytes, migrateUri: optional(text) },
  ),
  domainMigratePerform3Params: procedure(
    305,
    { domain, destination: optional(text), params, cookie: bytes, flags },
    { cookie: bytes },
  ),
  domainMigrateFinish3Params: procedure(
    306,
    { params, cookie: bytes, flags, cancelled: i32 },
    { domain, cookie: bytes },
  ),
  domainMigrateConfirm3Params: procedure(307, { domain, params, cookie: bytes, flags, cancelled: i32 }, {}),

  storagePoolDefineXML: procedure(77, { xml, flags }, { pool }, high),
  storagePoolCreate: procedure(78, { pool, flags }, {}),
  storagePoolRefresh: procedure(83, { pool, flags }, {}),
  storagePoolLookupByName: procedure(84, { name: text }, { pool }, high),
  storagePoolGetInfo: procedure(87, { pool }, { state: u32, capacity: u64, allocation: u64, available: u64 }, high),
  storagePoolGetXMLDesc: procedure(88, { pool, flags }, { xml }, high),
  storagePoolSetAutostart: procedure(90, { pool, autostart: flag }, {}, high),

  storageVolCreateXML: procedure(93, { pool, xml, flags }, { volume }),
  storageVolDelete: procedure(94, { volume, flags }, {}),
  storageVolLookupByName: procedure(95, { pool, name: text }, { volume }, high),
  storageVolGetXMLDesc: procedure(99, { volume, flags }, { xml }, high),

  networkDefineXML: procedure(41, { xml }, { network }, high),
  networkCreate: procedure(39, { network }, {}),
  networkDestroy: procedure(42, { network }, {}, high),
  networkGetXMLDesc: procedure(43, { network, flags }, { xml }, high),
  networkGetBridgeName: procedure(45, { network }, { bridge: text }, high),
  networkGetDHCPLeases: procedure(
    341,
    { network, mac: optional(text), wantResults: u32, flags },
    { leases: list(dhcpLease), count: u32 },
  ),
  networkLookupByName: procedure(46, { name: text }, { network }, high),
  networkSetAutostart: procedure(48, { network, autostart: flag }, {}, high),
  networkUndefine: procedure(49, { network }, {}, high),
  networkUpdate: procedure(291, { network, command: u32, section: u32, parentIndex: i32, xml, flags }, {}, high),

  nwfilterLookupByName: procedure(175, { name: text }, { filter: filterRef }, high),

  domainMonitorCommand: procedure(1, { domain, command: text, flags }, { answer: text }, { program: programs.qemu }),
  domainAgentCommand: procedure(
    3,
    { domain, command: text, timeoutSecs: i32, flags },
    { answer: optional(text) },
    { program: programs.qemu },
  ),
} as const

export type ProcedureName = keyof typeof procedures
export type Args<N extends ProcedureName> = Of<(typeof procedures)[N]['args']>
export type Result<N extends ProcedureName> = Of<(typeof procedures)[N]['result']>

/** The daemon's events: the number to subscribe with, the number of the message, and its shape. */
export const events = {
  domainEventCallbackLifecycle: {
    event: 0,
    number: 318,
    body: record({ callback: i32, domain, event: i32, detail: i32 }),
  },
  domainEventCallbackReboot: { event: 1, number: 319, body: record({ callback: i32, domain }) },
  domainEventCallbackAgentLifecycle: {
    event: 18,
    number: 348,
    body: record({ callback: i32, domain, state: i32, reason: i32 }),
  },
  domainEventCallbackJobCompleted: { event: 21, number: 363, body: record({ callback: i32, domain, params }) },
} as const
