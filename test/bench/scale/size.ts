// One size of installation and what is measured on it. Does not know any subject.
import type { Service } from '../service.ts'
import type { Fleet } from './fleet.ts'

export interface Size {
  hosts: number
  desktops: number
}

/** Named figures of one size, in the order in which they are shown. */
export type Figures = Record<string, number>

export interface Stage {
  service: Service
  size: Size
  fleet: Fleet
  /** Names of the hosts. */
  hosts: string[]
  desktops: string[]
  quick: boolean
  say(line: string): void
}

export interface ScaleSubject {
  name: string
  /** One sentence, for `--list` and the page. */
  what: string
  run(stage: Stage): Promise<Figures>
}
