// The wing of terminals over WebSockets: what it brings to the rest of the control plane.
import type { Upgrades } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { App } from '../http/app.ts'
import { Attachments, type AttachmentsOptions, takesUpgrades } from './attachments.ts'
import { attachRoutes } from './routes.ts'

export interface TerminalsNeeds extends Omit<AttachmentsOptions, 'log'> {
  logOf(module: string): Log
}

export function openTerminals({ logOf, ...needs }: TerminalsNeeds) {
  const attachments = new Attachments({ ...needs, log: logOf('terminals') })
  return {
    attachments,
    customerRoutes: (scope: App) => attachRoutes(scope, needs),
    takesUpgrades,
    attach: (upgrades: Upgrades) => attachments.attach(upgrades),
    gauges: [{ name: 'dormouse_exec_sockets', help: 'Open WebSockets of execs', count: () => attachments.open }],
    close: () => attachments.close(),
  }
}
