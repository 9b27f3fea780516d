// Joins the screen of an awake desktop to a channel that the control plane expects.

import { requireAwake } from '../desktops/awake-guest.ts'
import { joinScreen } from '../streams/join-screen.ts'
import type { CommandHandler } from './room.ts'

export const openStream: CommandHandler<'stream.open'> = async ({ ground }, wish, signal, dialBack) => {
  requireAwake(ground.journal, wish)
  const screen = await ground.driver.screen(wish.desktopId)
  try {
    void joinScreen(screen, await dialBack(wish.channel, signal), ground.log.child({ desktop: wish.desktopId }))
  } catch (error) {
    screen.destroy()
    throw error
  }
  return {}
}
