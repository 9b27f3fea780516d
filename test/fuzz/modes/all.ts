// All modes, in the order in which they run. A new one is a file in this folder and a line here.
import type { Mode } from '../mode.ts'
import { host } from './host.ts'
import { http } from './http.ts'

export const modes: readonly Mode[] = [http, host]
