// What one of several hosts offers. The machine's processors, memory and disk are divided, so that all hosts together offer
// what one would, and the control plane overbooks none of it.
import { statfsSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'

const mib = 1024 ** 2
const gib = 1024 ** 3

/** Settings of each of `count` agents. The undivided values are the agent's own defaults. `dir` is on the hosts' disk. */
export function capacityShare(count: number, dir: string): Record<string, string> {
  const { blocks, bsize } = statfsSync(dir)
  const processors = cpus().length
  const whole = (value: number) => String(Math.max(1, Math.floor(value / count)))
  return {
    DORMOUSE_AGENT_PROCESSORS: String(processors / count),
    DORMOUSE_AGENT_MEMORY_MIB: whole((totalmem() / mib) * 0.8),
    DORMOUSE_AGENT_DISK_GIB: whole((blocks * bsize * 4) / gib),
    DORMOUSE_AGENT_WORK_AT_ONCE: whole(processors * 2),
  }
}
