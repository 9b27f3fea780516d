// Joins the screen of an awake desktop to a channel that the control plane expects.
import type { Log } from '@dormouse/process'
import type { Activity } from '../desktops/activity.ts'
import { requireAwake } from '../desktops/awake-guest.ts'
import type { Journal } from '../desktops/journal.ts'
import type { Driver } from '../driver/driver.ts'
import type { ScreenClients } from '../streams/screen-clients.ts'
import type { CommandHandler } from './handler.ts'

interface ScreenDeps {
  activity: Pick<Activity, 'show'>
  journal: Journal
  driver: Pick<Driver, 'screen'>
  screenClients: ScreenClients
  log: Log
}

export const openStream: CommandHandler<'stream.open', ScreenDeps> = async (deps, request, signal, dialBack) => {
  requireAwake(deps.journal, request)
  const screen = await deps.driver.screen(request.desktopId)
  try {
    const channel = await dialBack(request.channel, signal)
    const shown = deps.activity.show(request.desktopId)
    const log = deps.log.child({ desktop: request.desktopId })
    void deps.screenClients.join(request, screen, channel, log).finally(() => shown[Symbol.dispose]())
  } catch (error) {
    screen.destroy()
    throw error
  }
  return {}
}
