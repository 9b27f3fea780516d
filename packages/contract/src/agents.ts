// Enrolment of hosts, and hello and heartbeat over the link.
import { z } from 'zod'
import { guestActivity, idleRule } from './activity.ts'
import { durationMs, listOf, recordOf, said } from './bounds.ts'
import { id } from './ids.ts'
import { moveState } from './moves.ts'
import { vaultName, vaultsMax } from './vaults.ts'

/** Raised when a frame's meaning changes. An agent with another version is refused and must be upgraded. */
export const linkProtocol = 1

/** More than a real host has. */
export const mostDesktops = 20_000
const mostImages = 1_000
const mostFetches = 100
const mostReplicas = 100

export const hostPublicKey = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().regex(/^[\w-]{43}$/, 'must be 32 bytes in base64url'),
})
export type HostPublicKey = z.infer<typeof hostPublicKey>

/** Enrolment: a one-time token and a public key against a host id. */
export const enrolBody = z.object({
  token: z.string().min(1).max(200),
  name: z
    .string()
    .min(1)
    .max(100)
    .regex(/^[^\p{C}]*$/u, 'must be printable'),
  public_key: hostPublicKey,
})
export type EnrolBody = z.infer<typeof enrolBody>
export const enrolledJson = z.object({ host_id: id, installation_id: id })
export type EnrolledJson = z.infer<typeof enrolledJson>

/** The subprotocol of a link. */
export const linkSubprotocol = 'dormouse.link.proof'

/** The control plane's first message on a new socket: a random nonce for this socket. */
export const linkChallenge = z.object({ nonce: z.string().regex(/^[\w-]{43}$/) })
/** The host's response. */
export const linkProof = z.object({ hostId: id, signature: z.string().regex(/^[\w-]{86}$/) })
/** The control plane's response to a valid proof. From then on the socket is a link. */
export const linkAccepted = z.object({ accepted: z.literal(true) })

/**
 * The text that a host signs to open a link. It contains its purpose and the installation, so that the signature is valid
 * for nothing else. It contains no time, so that clocks do not matter.
 */
export const linkProofText = (installationId: string, hostId: string, nonce: string): string =>
  `dormouse: host opens a link\ninstallation ${installationId}\nhost ${hostId}\nnonce ${nonce}\n`

const imageFetch = z.object({
  image: said(128),
  digest: said(64),
  state: z.enum(['waiting', 'fetching', 'failed']),
  doneBytes: z.int().min(0),
  totalBytes: z.int().min(0),
  /** Why it failed. */
  why: said(500).nullable(),
})
export type ImageFetch = z.infer<typeof imageFetch>

export const hostFacts = z.object({
  agentVersion: said(100),
  /** What the agent was built from; `sources` if it was not built. */
  commit: said(100).optional(),
  /** By how much its clock is behind that of the replica that answered its last heartbeat. */
  clockOffsetMs: z.int().optional(),
  /** Names of the vaults that it can copy desktops to. */
  vaults: listOf(vaultName, vaultsMax).optional(),
  /** A unit on the host upgrades the agent when the control plane asks for it. */
  upgradable: z.boolean().optional(),
  driver: z.enum(['libvirt', 'simulated']),
  /** Whether guests run with KVM; otherwise they are emulated. */
  kvm: z.boolean(),
  versions: recordOf(said(200), 50),
  capacity: z.object({ memoryMiB: z.int().min(0), diskGiB: z.int().min(0) }),
  /** Physical processors, or as many of them as it offers. The control plane alone derives virtual ones. */
  processors: z.number().min(0),
  /** How many boots, restores and saves it does at once. */
  workAtOnce: z.int().min(1).max(10_000),
  freeDiskGiB: z.int().min(0),
  images: listOf(said(128), mostImages),
  /** SHA-256 of the manifests of its images. */
  imageDigests: listOf(z.object({ image: said(128), digest: said(64) }), mostImages),
  /** Images that it fetches, or could not fetch. */
  fetches: listOf(imageFetch, mostFetches),
  /** Why the host cannot take desktops now; null while it can. */
  ailment: said(1_000).nullable(),
  /** Where it accepts moves; null if it accepts none. */
  moveAddress: said(300).nullable(),
  /** Saved boots of images, with which new desktops begin. Absent if the host makes none. */
  templates: z
    .array(z.object({ image: z.string(), memoryMiB: z.int().min(0), vcpus: z.int().min(0), mib: z.int().min(0) }))
    .max(1_000)
    .optional(),
  /** The warm copies of sleeping desktops. */
  warm: z.object({ copies: z.int().min(0), memoryMiB: z.int().min(0), maxMiB: z.int().min(0) }),
})
export type HostFacts = z.infer<typeof hostFacts>

/** A host's state of one desktop. A missing item is never a reason to destroy anything. */
export const observation = z.object({
  desktopId: id,
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id.nullable(),
  /** `paused` is a guest between restore and resume, or one that was suspended. A warm copy counts as `absent`. */
  domain: z.enum(['absent', 'running', 'paused', 'stopped']),
  /** Saved memory: `complete` may be restored once; `partial` and `spent` never. */
  memory: z.enum(['none', 'partial', 'complete', 'spent', 'damaged']),
  disk: z.boolean(),
  /** Why the domain is not running, as the hypervisor reports it. */
  reason: said(500).nullable(),
  /** The host keeps a paused copy of the saved memory. The desktop sleeps, with it or without it. */
  warm: z.boolean().optional(),
  /** While it moves between hosts. */
  move: moveState.optional(),
  /**
   * What stops the guest of a desktop that should run. `suspended`: it has put itself to sleep; its domain may count as running.
   * `paused`: something else has paused it. `space`: its disk could not grow; the host resumes it.
   */
  pause: z.enum(['suspended', 'paused', 'space']).optional(),
})
export type Observation = z.infer<typeof observation>
/** All desktops of a host. */
export const observations = listOf(observation, mostDesktops)

/** An inventory has a digest for each bucket of desktops, so that only what differs is sent and compared. */
export const inventoryBuckets = 16
/** Ids end at random. */
export const bucketOf = (desktopId: string): number => Number.parseInt(desktopId.slice(-1), inventoryBuckets)
/** By bucket; empty if none is known. Only the host that made a digest can make it again. */
export const inventoryDigests = listOf(z.string().max(64), inventoryBuckets)

export const hello = z.object({
  protocol: z.int(),
  installationId: id,
  facts: hostFacts,
  inventory: observations,
  highestEpoch: z.int().min(0),
})
export type Hello = z.infer<typeof hello>

const replicas = listOf(z.string().max(2_000), mostReplicas)

export const welcome = z.object({
  hostId: id,
  replicaId: id,
  epoch: z.int().min(0),
  heartbeatMs: durationMs,
  /** Base URLs of the live replicas; the agent keeps one link to each. */
  replicas,
})
export type Welcome = z.infer<typeof welcome>

/** What went wrong in a guest. A later release may have more kinds. */
const guestTrouble = z.object({
  desktopId: id,
  /** `out_of_memory` or `disk_full`. */
  kind: said(40),
  /** By the host's clock, in Unix milliseconds; rises for the same desktop and kind. */
  at: z.int().min(0),
  /** What the guest's kernel killed last, and how many it has killed since the trouble before. */
  process: said(64).nullable(),
  kills: z.int().min(0),
  /** Whose disk is full: the guest's file system at `path`, or its host's. */
  where: z.enum(['guest', 'host']).nullable(),
  path: said(500).nullable(),
})
export type GuestTrouble = z.infer<typeof guestTrouble>
export const mostTroubles = 1_000

export const heartbeat = z.object({
  facts: hostFacts,
  /** The desktops whose domain runs now, with their generations. Usage counts by this. */
  running: listOf(z.object({ desktopId: id, generation: z.int() }), mostDesktops),
  /** The desktops whose activity has changed since the last heartbeat on this link; all of them in the first heartbeat. */
  activity: listOf(guestActivity, mostDesktops),
  /** Each is repeated for a minute, at most one of each kind for a desktop: a leader that has changed meanwhile misses none. */
  troubles: listOf(guestTrouble, mostTroubles).optional(),
  /** It requests the rules by which it hibernates idle desktops without contact to a leader. */
  wantsIdleRules: z.boolean().optional(),
})
export type Heartbeat = z.infer<typeof heartbeat>
export const heartbeatAnswer = z.object({
  replicas,
  /** This replica's clock, in Unix milliseconds. */
  now: z.int().min(0).optional(),
  /** Whether this replica leads. */
  leads: z.boolean(),
  /** Only for a host that requests it: all its awake desktops that may hibernate by themselves. */
  idleRules: listOf(idleRule, mostDesktops).optional(),
})
export type HeartbeatAnswer = z.infer<typeof heartbeatAnswer>

/** Calls an agent makes to the control plane. */
export const agentCalls = {
  'host.hello': { payload: hello, result: welcome },
  'host.heartbeat': { payload: heartbeat, result: heartbeatAnswer },
} as const
