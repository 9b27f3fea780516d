// Operators' routes to what is wrong now, and to trust a host whose commands are withheld. Only HTTP.
import { alarmJson, printable, refuseNotFound, trustedHostJson } from '@dormouse/contract'
import { z } from 'zod'
import type { StandingAlarms } from '../alarms/service.ts'
import type { Hosts } from '../hosts/service.ts'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Recovery } from './service.ts'
import { wrongNow } from './wrong-now.ts'

const params = z.object({ host: printable(100).describe('Its id or its name') })

export interface RecoveryRoutesOptions {
  recovery: Recovery
  alarms: StandingAlarms
  hosts: Hosts
  leadership: Leadership
}

export function recoveryAdminRoutes(app: App, { recovery, alarms, hosts, leadership }: RecoveryRoutesOptions): void {
  app.get('/alarms', { schema: { response: { 200: z.object({ alarms: z.array(alarmJson) }) } } }, async () => ({
    alarms: await wrongNow(alarms, hosts),
  }))
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
