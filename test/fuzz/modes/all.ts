// All modes, in the order in which they run. A new one is a file in this folder and a line here.
import type { Mode } from '../mode.ts'
import { controlPlane } from './control-plane.ts'
import { guestAgent } from './guest-agent.ts'
import { host } from './host.ts'
import { http } from './http.ts'
import { screen } from './screen.ts'
import { ssh } from './ssh.ts'

export const modes: readonly Mode[] = [http, host, controlPlane, ssh, guestAgent, screen]
