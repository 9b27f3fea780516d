// Operators' route to trust a host whose commands are withheld. Only HTTP.
import { refuseNotFound, trustedHostJson } from '@dormouse/contract'
import { z } from 'zod'
import type { Hosts } from '../hosts/service.ts'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Recovery } from './service.ts'

const params = z.object({ host: z.string().min(1).max(100).describe('Its id or its name') })

export interface RecoveryRoutesOptions {
  recovery: Recovery
  hosts: Hosts
  leadership: Leadership
}

export function recoveryAdminRoutes(app: App, { recovery, hosts, leadership }: RecoveryRoutesOptions): void {
  app.post(
    '/hosts/:host/trust',
    { schema: { act: 'host.trust', params, response: { 200: trustedHostJson } } },
    async (request) => {
      leadership.require()
      const { id, wasWithheld } = await recovery.trust(request.params.host, noteOf(request))
      const found = (await hosts.list()).find((host) => host.id === id) ?? refuseNotFound()
      return { ...found, was_withheld: wasWithheld }
    },
  )
}
