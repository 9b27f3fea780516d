// The contract as a table: one row for each of its sentences and table rows that a program can look at, in its order.
import { authentication } from './authentication.ts'
import { endpoints } from './endpoints.ts'
import { errors } from './errors.ts'
import { guest } from './guest.ts'
import { limits, versioning } from './limits.ts'
import { resources } from './resources.ts'
import type { Chapter } from './row.ts'
import { service } from './service.ts'
import { states } from './states.ts'

export const chapters: Chapter[] = [
  service,
  resources,
  states,
  endpoints,
  guest,
  authentication,
  errors,
  limits,
  versioning,
]
