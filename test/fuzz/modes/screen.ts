// Is the screen of desktops that somebody looks at: by the page's own way, as a viewer and in control, and as a picture. A
// process that ends, an answer by which the service is at fault, and a filter that fails otherwise than it says are faults.
import { diceOf } from '../dice.ts'
import { faultsOfFilter } from '../guests/filter.ts'
import { screenBytes, screenManner } from '../guests/hostile-screen.ts'
import { GuestSubject } from '../guests/subject.ts'
import { trialOf } from '../guests/verdicts.ts'
import { look } from '../guests/viewer.ts'
import type { Mode } from '../mode.ts'

export const screen: Mode = {
  name: 'screen',
  about: 'a hostile RFB server, against a real agent and the relay to its viewers',
  remote: false,
  begin: (wish) =>
    GuestSubject.begin(wish, (stage, dice) => {
      const bytes = screenBytes(dice)
      const shown = { bytes: bytes.toString('base64').slice(0, 2_000) }
      const manner = { screen: screenManner(bytes, dice) }
      const claim = dice.pick(['view', 'control'] as const)
      const why = faultsOfFilter(bytes, dice)
      return stage.with(manner, async (desk) => {
        const [opened, taken] = await Promise.all([
          look(desk, claim, diceOf(dice.int(2 ** 31))),
          desk.ask('GET', '/screenshot'),
        ])
        return trialOf(claim, { ...opened, picture: taken }, shown, why)
      })
    }),
}
