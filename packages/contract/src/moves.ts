// A move of a desktop between two hosts: what the control plane sends to each of them. The hosts' own texts for each other
// (`handoff`) pass through the control plane, which does not read them.
import { z } from 'zod'
import { listOf, said } from './bounds.ts'
import { id } from './ids.ts'

/** `live` moves a desktop that is awake, with its memory; `cold` one that is asleep, with its saved memory if it has one. */
export const moveKind = z.enum(['live', 'cold'])
export type MoveKind = z.infer<typeof moveKind>

/** How operators move a desktop that is awake: while it runs, or hibernated and woken again. */
export const moveMode = z.enum(['live', 'hibernate'])
export type MoveMode = z.infer<typeof moveMode>

/** An opaque text of one host for the other: libvirt's cookies and XML, or what files there are. */
export const handoff = z.string().max(1024 * 1024)

/** Where a host accepts moves. */
export const moveAddress = z.object({ host: z.string().min(1).max(255), port: z.int().min(1).max(65_535) })
export type MoveAddress = z.infer<typeof moveAddress>

/** The token that the replica expects on a channel that an agent dials back. */
export const channelToken = z.string().regex(/^[\w-]{16,64}$/)

/**
 * A connection of two hosts through a replica of the control plane: the channels that one of them dials back, one for each
 * stream of the move. The first of one host is joined with the first of the other, and so on.
 */
export const relay = z.object({ channels: listOf(channelToken, 16) })
export type Relay = z.infer<typeof relay>

/** The key of one move: 32 bytes in base64url. It is never stored. */
export const moveKey = z.string().regex(/^[\w-]{43}$/)

/** What a host must have to take a desktop, as the desktop's host reports it. */
export const moveTraits = z.object({
  kind: moveKind,
  driver: z.enum(['libvirt', 'simulated']),
  /** Whether its guest runs with KVM. */
  kvm: z.boolean(),
  /** libvirt's and QEMU's versions, as `9.0.0`: the other host's must not be older. */
  hypervisor: said(100),
  emulator: said(100),
  /** Empty if no memory moves. */
  machine: said(100),
  /** Whether it is on its host's network. */
  network: z.boolean(),
  /** The CPU that the guest has got, as libvirt's XML; null if no memory moves. */
  cpu: z
    .string()
    .max(64 * 1024)
    .nullable(),
  /** SHA-256 over the image's files. */
  imageDigest: z.string().max(64),
  /** How many bytes the disk and the saved memory have now. */
  diskBytes: z.int().min(0),
  memoryBytes: z.int().min(0),
})
export type MoveTraits = z.infer<typeof moveTraits>

/** A move as a host has it. Nothing of a desktop that arrives runs before the control plane has decided. */
export const moveState = z.object({
  /** The operation that moves it. */
  moveId: id,
  direction: z.enum(['out', 'in']),
  kind: moveKind,
  /**
   * `moving`: everything can go back. `arrived`: whole on the new host, and nothing runs there. `left`: the control plane
   * has decided, and nothing may ever run on the old host.
   */
  phase: z.enum(['moving', 'arrived', 'left']),
})
export type MoveState = z.infer<typeof moveState>
