// By which a domain is recognised as this installation's.
import type { DesktopId } from '@dormouse/contract'

/** The metadata of a domain: its installation and desktop, and the last command that was accepted for it. */
export interface Mark {
  installationId: string
  desktopId: DesktopId
  generation: number
  turn: number
  operationId: string
}
