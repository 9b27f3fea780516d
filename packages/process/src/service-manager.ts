// Tells systemd how far this process is. Without systemd, nothing is told.
import { execFile } from 'node:child_process'

/** Sends these fields, such as READY=1. Node has no datagram sockets of the kind that systemd listens on. */
export function tellServiceManager(...fields: string[]): void {
  // A lost message costs a restart at worst.
  if (process.env.NOTIFY_SOCKET) execFile('systemd-notify', fields, () => undefined)
}

/** Reports this process as alive, so that systemd restarts it if its event loop stands still. */
export function keepWatchdogFed(): void {
  const limitMs = Number(process.env.WATCHDOG_USEC) / 1_000
  if (limitMs > 0) setInterval(tellServiceManager, limitMs / 3, 'WATCHDOG=1').unref()
}
