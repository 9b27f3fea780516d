// What is asked of the guest of an awake desktop. Any replica that holds a link to the host may ask.
import { type ExecBody, type ExecJson, execTimeoutDefaultSecs, execTimeoutMaxSecs, refuse } from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import type { Desktops } from '../desktops/service.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { Customer } from '../principals/service.ts'

/** Beyond the guest's own deadline: the time the host may take to kill the command and answer. */
const marginMs = 10_000

export class Guests {
  readonly #desktops: Desktops
  readonly #links: Links

  constructor(desktops: Desktops, links: Links) {
    this.#desktops = desktops
    this.#links = links
  }

  /** Runs a command. Only its own deadline ends it (504), also when the caller goes away; the host's loss is 503. */
  async exec(caller: Customer, id: string, body: ExecBody, requestId: string): Promise<ExecJson> {
    const { hostId, generation } = awake(await this.#desktops.get(caller, id))
    const timeoutSecs = Math.min(body.timeout_secs ?? execTimeoutDefaultSecs, execTimeoutMaxSecs)
    const result = await this.#links.command(
      hostId,
      'guest.exec',
      {
        desktopId: id,
        generation,
        command: body.command,
        cwd: body.cwd ?? null,
        env: body.env ?? {},
        stdin: body.stdin ?? null,
        timeoutSecs,
      },
      { timeoutMs: timeoutSecs * 1_000 + marginMs, requestId },
    )
    return {
      exit_code: result.exitCode,
      signal: result.signal,
      stdout: result.stdout,
      stderr: result.stderr,
      stdout_truncated: result.stdoutTruncated,
      stderr_truncated: result.stderrTruncated,
      duration_ms: result.durationMs,
    }
  }
}

/** The desktop's host and generation, where it is awake. */
function awake(desktop: DesktopRow): { hostId: string; generation: number } {
  const { state, hostId, generation } = desktop
  if (state !== 'awake' || hostId === null) return refuse('not_awake', `the desktop is ${state}; wake it first`)
  return { hostId, generation }
}
