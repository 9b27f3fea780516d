// Is the guest agent of desktops that have nothing else, as libvirt hands its words on. A process that ends, an answer by
// which the service is at fault, and a desktop that is of no use afterwards are faults.
import { agentPlan } from '../guests/hostile-agent.ts'
import { askedOf } from '../guests/owner.ts'
import { GuestSubject } from '../guests/subject.ts'
import { trialOf } from '../guests/verdicts.ts'
import type { Mode } from '../mode.ts'

export const guestAgent: Mode = {
  name: 'guest-agent',
  about: 'a hostile guest agent, against a real agent',
  remote: false,
  begin: (wish) =>
    GuestSubject.begin('qga', wish, (stage, dice) => {
      const { agent, shown } = agentPlan(dice)
      return stage.with({ agent }, async (desk) => trialOf('answers', await askedOf(desk, dice), shown))
    }),
}
