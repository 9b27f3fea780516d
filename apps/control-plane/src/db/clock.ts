// How far the clock of this machine is from the database's.
import type { Db } from './pool.ts'

const warnsMs = 2_000

export const clockRemedy = 'set the clock of both machines by NTP, such as with systemd-timesyncd'

/** In milliseconds; negative if ours is behind. */
export async function clockOffset(db: Db): Promise<number> {
  const before = Date.now()
  const { rows } = await db.query<{ ms: number }>('select extract(epoch from clock_timestamp()) * 1000 as ms')
  return Math.round((before + Date.now()) / 2 - Number(rows[0]!.ms))
}

export const isOff = (offsetMs: number): boolean => Math.abs(offsetMs) > warnsMs

export const offText = (offsetMs: number): string =>
  `${Math.abs(offsetMs) / 1_000} s ${offsetMs > 0 ? 'ahead of' : 'behind'} the database's`
