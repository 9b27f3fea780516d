// What an agent is shown of a failure: what happened, and the tool that helps.
import { DormouseError } from '@dormouse/client'

/** By code of the refusal. Tools that were not granted are named too: the agent can tell its user. */
const nextSteps: Record<string, string> = {
  not_awake: 'call desktop_wake, then retry',
  wrong_state: 'call desktop_list to see its state',
  not_found: 'call desktop_list to see the ids',
  file_not_found: 'call desktop_list_files on its folder',
  is_directory: 'call desktop_list_files to see what is in it',
  guest_deadline: 'raise timeout_secs, or run it with `background: true`',
  exec_interrupted: 'look at what the command has done before you run it again',
  guest_unavailable: 'retry in a few seconds',
  host_unreachable: 'call desktop_list to see its state; look at what a command has done before you run it again',
  claim_held: 'somebody controls the screen; wait, or ask your user before you act with `takeover: true`',
  quota_exceeded: 'destroy a desktop that is not needed, or ask your user for it',
  screen_changed: 'call desktop_screen, then act on what it shows',
  screen_too_large: 'set a smaller resolution in the desktop with desktop_run',
  rate_limited: 'wait a second, then retry with fewer calls at once',
}

/** By the field of a 400. */
const fieldSteps: Record<string, string> = {
  image: 'call desktop_images to see what there is',
  image_version: 'call desktop_images to see what there is',
}

/** One or two sentences. Errors that are no answer of the service are bugs, and thrown. */
export function explain(error: unknown): string {
  if (!(error instanceof DormouseError)) throw error
  const next =
    nextSteps[error.code ?? ''] ??
    fieldSteps[error.problem?.field ?? ''] ??
    (error.status === 404 ? nextSteps.not_found : undefined)
  return [error.message, ...(next ? [`Next step: ${next}`] : []), ...printedBefore(error)].join('\n')
}

/** What a command had printed before its timeout. */
const printedBefore = ({ problem }: DormouseError): string[] => [
  ...(problem?.stdout ? [`--- stdout\n${problem.stdout}`] : []),
  ...(problem?.stderr ? [`--- stderr\n${problem.stderr}`] : []),
]
