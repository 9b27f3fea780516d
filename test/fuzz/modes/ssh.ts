// Is the SSH server of desktops whose owners run commands and move files meanwhile. A process that ends, an answer by which
// the service is at fault, and a desktop that is of no use afterwards are faults.
import { sshPlan } from '../guests/hostile-ssh.ts'
import { askedOf } from '../guests/owner.ts'
import { GuestSubject } from '../guests/subject.ts'
import { trialOf } from '../guests/verdicts.ts'
import type { Mode } from '../mode.ts'

/** How long the server goes on before it is cut off. */
const goesOnMs = 1_200

export const ssh: Mode = {
  name: 'ssh',
  about: 'a hostile SSH server in a guest, against a real agent',
  remote: false,
  begin: (wish) =>
    GuestSubject.begin(wish, (stage, dice) => {
      const { manner, kind, shown } = sshPlan(dice)
      return stage.with(manner, async (desk, cut) => {
        const timer = setInterval(cut, goesOnMs)
        const answers = await askedOf(desk, dice).finally(() => clearInterval(timer))
        return trialOf(kind, answers, shown)
      })
    }),
}
