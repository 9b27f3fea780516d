// Is the guest agent of desktops whose SSH port nobody serves, so that the host brings its program in, as libvirt hands its words on. A process that ends, an answer by
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
    GuestSubject.begin(wish, (stage, dice) => {
      const { agent, shown } = agentPlan(dice)
      return stage.with({ agent, door: (socket) => void socket.destroy() }, async (desk, cut) => {
        cut()
        return trialOf('answers', await askedOf(desk, dice), shown)
      })
    }),
}
