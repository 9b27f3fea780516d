// How a host becomes known and stays known: enrolment, hello and heartbeat over the link.
import { z } from 'zod'
import { durationMs, listOf, recordOf, said } from './bounds.ts'
import { id } from './ids.ts'

/** Raised when a frame's meaning changes; an agent with another one is told to upgrade. */
export const linkProtocol = 1

/** More than a frame of the link holds of them in earnest. */
export const mostDesktops = 20_000
const mostImages = 1_000
const mostReplicas = 100

/** Enrolment: a one-time token and a public key against a host id. */
export const enrolBody = z.object({
  token: z.string().min(1).max(200),
  name: z
    .string()
    .min(1)
    .max(100)
    .regex(/^[^\p{C}]*$/u, 'must be printable'),
  public_key: z.object({
    kty: z.literal('OKP'),
    crv: z.literal('Ed25519'),
    x: z.string().regex(/^[\w-]{43}$/, 'must be 32 bytes in base64url'),
  }),
})
export type EnrolBody = z.infer<typeof enrolBody>
export const enrolledJson = z.object({ host_id: id, installation_id: id })
export type EnrolledJson = z.infer<typeof enrolledJson>

/**
 * Subprotocols of a link, in the order in which an agent offers them. A control plane that knows none takes the first, and
 * judges the host by the token in the request's header; one that knows them takes `proof`. The token goes with the next
 * release.
 */
export const linkSubprotocols = { token: 'dormouse.link.token', proof: 'dormouse.link.proof' } as const

/** What a control plane says first on a socket that is to become a link: random, for this socket alone. */
export const linkChallenge = z.object({ nonce: z.string().regex(/^[\w-]{43}$/) })
/** What the host answers. */
export const linkProof = z.object({ hostId: id, signature: z.string().regex(/^[\w-]{86}$/) })
/** What the control plane says to a proof that is good. From then on the socket is a link. */
export const linkAccepted = z.object({ accepted: z.literal(true) })

/**
 * What a host signs with its key to open a link. It names its purpose and the installation, so that the signature is good
 * for nothing else; it holds no time, so that no clock matters.
 */
export const linkProofText = (installationId: string, hostId: string, nonce: string): string =>
  `dormouse: host opens a link\ninstallation ${installationId}\nhost ${hostId}\nnonce ${nonce}\n`

/** An agent of the release before says `capacity.vcpus` alone: so many for each processor. To go with the next release. */
export const oldVcpusPerProcessor = 4

/** What a host can take in all. How many virtual processors that makes, the control plane alone decides: see `processors`. */
export const capacity = z.object({ vcpus: z.int().min(0), memoryMiB: z.int().min(0), diskGiB: z.int().min(0) })
export type Capacity = z.infer<typeof capacity>

export const hostFacts = z.object({
  agentVersion: said(100),
  driver: z.enum(['libvirt', 'simulated']),
  /** Whether guests run on the processor itself, or are emulated. */
  kvm: z.boolean(),
  versions: recordOf(said(200), 50),
  capacity,
  /** Its own, or as many as it is to lend from. */
  processors: z.number().min(0).optional(),
  freeDiskGiB: z.int().min(0),
  images: listOf(said(128), mostImages),
  /** Why the host can take no desktop now; null while it can. */
  ailment: said(1_000).nullable(),
})
export type HostFacts = z.infer<typeof hostFacts>

/** All that a host knows of one desktop. Absence of an item is never a reason to destroy anything. */
export const observation = z.object({
  desktopId: id,
  generation: z.int().min(0),
  turn: z.int().min(0),
  operationId: id.nullable(),
  /** `paused` is a guest stopped by us between restore and resume, or suspended; it answers nobody. */
  domain: z.enum(['absent', 'running', 'paused', 'stopped']),
  /** Saved memory: `complete` may be restored once; `partial` and `spent` never. */
  memory: z.enum(['none', 'partial', 'complete', 'spent', 'damaged']),
  disk: z.boolean(),
  /** Why the domain is not running, in the hypervisor's words, where it is known. */
  reason: said(500).nullable(),
})
export type Observation = z.infer<typeof observation>
/** Of all desktops of a host. */
export const observations = listOf(observation, mostDesktops)

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
  leaseMs: durationMs,
  /** Base URLs of the live replicas; the agent keeps one link to each. */
  replicas,
})
export type Welcome = z.infer<typeof welcome>

export const heartbeat = z.object({
  facts: hostFacts,
  /** Proof of life: the desktops whose domain runs now, each with its generation. */
  running: listOf(z.object({ desktopId: id, generation: z.int() }), mostDesktops),
})
export type Heartbeat = z.infer<typeof heartbeat>
export const heartbeatAnswer = z.object({ leaseRenewed: z.boolean(), replicas })
export type HeartbeatAnswer = z.infer<typeof heartbeatAnswer>

/** Calls an agent makes to the control plane. */
export const agentCalls = {
  'host.hello': { payload: hello, result: welcome },
  'host.heartbeat': { payload: heartbeat, result: heartbeatAnswer },
} as const
