/**
 * Numbers of libvirt's public API. `scripts/check-table.ts` compares each group with libvirt's own description, and has the
 * prefix of each.
 */

/** Values of `LibvirtError.code` that callers distinguish. */
export const errorCode = {
  internalError: 1,
  noSupport: 3,
  invalidArg: 8,
  operationFailed: 9,
  xmlError: 27,
  systemError: 38,
  rpc: 39,
  noDomain: 42,
  noNetwork: 43,
  noStoragePool: 49,
  noStorageVol: 50,
  operationInvalid: 55,
  configUnsupported: 67,
  operationTimeout: 68,
  argumentUnsupported: 74,
  operationAborted: 78,
  noNwfilter: 62,
  noDomainMetadata: 80,
  migrateUnsafe: 81,
  operationUnsupported: 84,
  agentUnresponsive: 86,
  resourceBusy: 87,
  accessDenied: 88,
  storageVolExist: 90,
  cpuIncompatible: 91,
  migrateFinishOk: 93,
  noClient: 96,
  agentUnsynced: 97,
} as const

export const domainState = {
  nostate: 0,
  running: 1,
  blocked: 2,
  paused: 3,
  shutdown: 4,
  shutoff: 5,
  crashed: 6,
  pmsuspended: 7,
} as const

export const runningReason = {
  unknown: 0,
  booted: 1,
  migrated: 2,
  restored: 3,
  fromSnapshot: 4,
  unpaused: 5,
  migrationCanceled: 6,
  saveCanceled: 7,
  wakeup: 8,
  crashed: 9,
  postcopy: 10,
  postcopyFailed: 11,
} as const

export const pausedReason = {
  unknown: 0,
  user: 1,
  migration: 2,
  save: 3,
  dump: 4,
  ioerror: 5,
  watchdog: 6,
  fromSnapshot: 7,
  shuttingDown: 8,
  snapshot: 9,
  crashed: 10,
  startingUp: 11,
  postcopy: 12,
  postcopyFailed: 13,
} as const

export const shutoffReason = {
  unknown: 0,
  shutdown: 1,
  destroyed: 2,
  crashed: 3,
  migrated: 4,
  saved: 5,
  failed: 6,
  fromSnapshot: 7,
  daemon: 8,
} as const

/** The `event` of a lifecycle event. */
export const lifecycleEvent = {
  defined: 0,
  undefined: 1,
  started: 2,
  suspended: 3,
  resumed: 4,
  stopped: 5,
  shutdown: 6,
  pmsuspended: 7,
  crashed: 8,
} as const

export const definedDetail = { added: 0, updated: 1, renamed: 2, fromSnapshot: 3 } as const
export const undefinedDetail = { removed: 0, renamed: 1 } as const
export const startedDetail = { booted: 0, migrated: 1, restored: 2, fromSnapshot: 3, wakeup: 4 } as const
export const suspendedDetail = {
  paused: 0,
  migrated: 1,
  ioerror: 2,
  watchdog: 3,
  restored: 4,
  fromSnapshot: 5,
  apiError: 6,
  postcopy: 7,
  postcopyFailed: 8,
} as const
export const resumedDetail = { unpaused: 0, migrated: 1, fromSnapshot: 2, postcopy: 3, postcopyFailed: 4 } as const
export const stoppedDetail = {
  shutdown: 0,
  destroyed: 1,
  crashed: 2,
  migrated: 3,
  saved: 4,
  failed: 5,
  fromSnapshot: 6,
} as const
export const shutdownDetail = { finished: 0, guest: 1, host: 2 } as const
export const pmsuspendedDetail = { memory: 0, disk: 1 } as const
export const crashedDetail = { panicked: 0, crashloaded: 1 } as const

export const agentState = { connected: 1, disconnected: 2 } as const
export const agentReason = { unknown: 0, domainStarted: 1, channel: 2 } as const

export const listDomainsFlag = {
  active: 1,
  inactive: 2,
  persistent: 4,
  transient: 8,
  running: 16,
  paused: 32,
  shutoff: 64,
  other: 128,
} as const

export const createFlag = { paused: 1, autodestroy: 2, bypassCache: 4, forceBoot: 8, validate: 16 } as const
export const destroyFlag = { graceful: 1 } as const
export const undefineFlag = {
  managedSave: 1,
  snapshotsMetadata: 2,
  nvram: 4,
  keepNvram: 8,
  checkpointsMetadata: 16,
} as const
export const saveFlag = { bypassCache: 1, running: 2, paused: 4 } as const
export const snapshotFlag = { noMetadata: 4 } as const
export const xmlFlag = { secure: 1, inactive: 2, updateCpu: 4, migratable: 8 } as const
export const metadataType = { description: 0, title: 1, element: 2 } as const
export const affect = { current: 0, live: 1, config: 2 } as const
export const blockResizeFlag = { bytes: 1 } as const
export const setTimeFlag = { sync: 1 } as const
export const jobType = { none: 0, bounded: 1, unbounded: 2, completed: 3, failed: 4, cancelled: 5 } as const
export const jobStatsFlag = { completed: 1, keepCompleted: 2 } as const
export const jobOperation = {
  unknown: 0,
  start: 1,
  save: 2,
  restore: 3,
  migrationIn: 4,
  migrationOut: 5,
  snapshot: 6,
  snapshotRevert: 7,
  dump: 8,
  backup: 9,
  snapshotDelete: 10,
} as const

export const statsGroup = { state: 1, cpuTotal: 2, balloon: 4, vcpu: 8, interface: 16, block: 32 } as const
export const statsFlag = { nowait: 1 << 29 } as const

export const migrateFlag = {
  live: 1,
  peer2peer: 2,
  tunnelled: 4,
  persistDest: 8,
  undefineSource: 16,
  paused: 32,
  nonSharedDisk: 64,
  nonSharedInc: 128,
  changeProtection: 256,
  unsafe: 512,
  abortOnError: 4096,
  autoConverge: 8192,
} as const

export const cpuCompareResult = { incompatible: 0, identical: 1, superset: 2 } as const
export const compareCpuFlag = { failIncompatible: 1 } as const

export const networkUpdateCommand = { modify: 1, delete: 2, addLast: 3, addFirst: 4 } as const
export const networkSection = { ipDhcpHost: 4, ipDhcpRange: 5, dnsHost: 10 } as const
export const networkAffect = { current: 0, live: 1, config: 2 } as const

export const poolState = { inactive: 0, building: 1, running: 2, degraded: 3, inaccessible: 4 } as const
export const volumeCreateFlag = { preallocMetadata: 1, reflink: 2, validate: 4 } as const
