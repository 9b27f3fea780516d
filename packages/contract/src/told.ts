// The one table of what customers are told of failures whose cause is for operators. Nothing that a host, a hypervisor or
// a database says is ever part of it.
import { Refusal, type RefusalCode, refusals } from './problems.ts'

interface Told {
  what: string
  /** The next step. */
  next: string
}

const tryAgain = 'try again, and ask the operator if it fails again'
const fromDisk = 'wake with `discard_memory` to boot from the disk, or ask the operator'
const look = 'look at the desktop’s state, and try again'
const inGuest = 'choose another path'

/** Every code that a host may refuse with, or an operation fail with. */
const sentences: Partial<Record<RefusalCode, Told>> = {
  // Of operations.
  no_room: { what: 'there is no room for this desktop now', next: 'try again later' },
  no_host: { what: 'no host can take this desktop now', next: 'try again later' },
  host_away: { what: 'the desktop’s host is out of reach, or cannot run it now', next: 'try again when it is back' },
  image_unavailable: {
    what: 'no host has the desktop’s image',
    next: 'create a desktop with another image, or ask the operator for this one',
  },
  memory_image_damaged: { what: 'the saved memory cannot be restored', next: fromDisk },
  memory_image_missing: { what: 'the saved memory is not where it was left', next: fromDisk },
  memory_lost: { what: 'the saved memory cannot be used any more', next: fromDisk },
  disk_missing: { what: 'the desktop’s disk is not where it was left', next: 'ask the operator' },
  host_disk_full: { what: 'the disk of the desktop’s host is full', next: 'try again later' },
  guest_silent: { what: 'the guest did not answer in time after its start', next: tryAgain },
  hypervisor_failed: { what: 'the desktop’s host failed at this', next: tryAgain },
  host_removed: {
    what: 'the desktop’s host was removed for good, and its only disk with it: its data is lost',
    next: 'destroy the desktop and create another',
  },
  superseded: { what: 'a later request overtook this one', next: look },
  deadline_exceeded: { what: 'this did not settle before its deadline', next: look },
  stale_epoch: { what: 'the desktop’s host could not do this now', next: 'try again' },
  stale_turn: { what: 'a later request for this desktop was obeyed before', next: look },
  unknown_desktop: { what: 'the desktop is not on its host any more', next: 'ask the operator' },
  internal: { what: 'something failed on our side', next: tryAgain },
  // Of operations, and of calls into a guest.
  host_unreachable: { what: 'the desktop’s host is out of reach', next: 'try again when it is back' },
  guest_unavailable: { what: 'the guest does not answer, or went away', next: look },
  guest_deadline: {
    what: 'the guest did not do this within its deadline, and it was ended',
    next: 'give it longer, or ask for less at once',
  },
  not_awake: { what: 'the desktop is not awake any more', next: 'wake it first' },
  invalid_request: { what: 'the desktop’s host cannot take this request', next: 'change it, or ask the operator' },
  payload_too_large: { what: 'this is larger than the desktop’s host takes', next: 'send less' },
  command_not_run: {
    what: 'the guest could not start the command: no such program or folder, or it may not be run',
    next: 'check its name and its folder',
  },
  file_not_found: { what: 'there is no such file in the guest', next: inGuest },
  not_directory: { what: 'a part of the path is no directory in the guest', next: inGuest },
  is_directory: { what: 'the path names a directory in the guest', next: 'name a file in it' },
  not_regular: { what: 'the path names no regular file in the guest', next: inGuest },
  symlink_loop: { what: 'the path runs through a loop of symbolic links in the guest', next: inGuest },
  permission_denied: { what: 'the guest’s file system refuses access', next: inGuest },
  read_only: { what: 'the guest’s file system is read-only', next: inGuest },
  no_space: { what: 'the guest’s disk is full', next: 'make room there' },
}

/** What happened, whether anything was lost where that is known, and what to do. */
export function toldOf(code: RefusalCode, lost?: string): string {
  const { what, next } = sentences[code] ?? ofRefusal(code)
  return [what, lost, next].filter(Boolean).join('; ')
}

/** A code may be that of another release, which wrote it into the database. */
const ofRefusal = (code: RefusalCode): Told => ({
  what: (refusals[code] ?? refusals.internal).what.replace(/\.$/, ''),
  next: tryAgain,
})

/** A refusal whose cause is for operators; the customer is told what the table says of its code. */
export const becauseOf = (code: RefusalCode, cause: string): Refusal => new Refusal(code, toldOf(code), { cause })
