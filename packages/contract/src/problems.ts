// The problem body (RFC 9457) of every response that is not a success.
import { z } from 'zod'
import { desktopState } from './desktops.ts'
import { refusalCode } from './refusals.ts'
import { right } from './rights.ts'
import { streamClaim } from './streams.ts'

export const problemJson = z
  .object({
    type: z.literal('about:blank'),
    title: z.string().describe('Status phrase'),
    status: z.int(),
    detail: z.string().describe('Short human-readable text'),
    code: refusalCode.describe('The refusal, for programs'),
    field: z.string().optional().describe('On 400: the part of the request that is wrong'),
    right: right.optional().describe('On `not_allowed`: the right that the credential lacks'),
    state: desktopState.optional().describe('On `wrong_state` and `not_awake`: the desktop’s state'),
    claim: streamClaim.optional().describe('On `claim_held`: the claim that another client holds'),
    holder: z.string().optional().describe('On `claim_held`, to input: who holds it'),
    since: z.string().optional().describe('On `claim_held`, to input: since when'),
    human_active: z
      .boolean()
      .optional()
      .describe('On `claim_held`, to input: whether its holder used the screen in the last 15 s'),
    operation_id: z.string().optional().describe('Where the problem concerns an operation'),
    desktop_id: z.string().optional().describe('On `name_taken`: the desktop that has the name'),
    quota: z
      .string()
      .optional()
      .describe('On `quota_exceeded`: the name of the quota; absent if it is the limit of all desktops'),
    exec_id: z.string().optional().describe('The exec that goes on, or may have begun, without this request'),
    stdout: z
      .string()
      .optional()
      .describe('On `guest_deadline`, of a command: the first 64 KiB of what it had printed before it was ended'),
    stderr: z.string().optional().describe('The same of its other stream'),
    stdout_truncated: z.boolean().optional().describe('Whether it had printed more'),
    stderr_truncated: z.boolean().optional(),
    oldest_cursor: z.string().optional().describe('On `cursor_gone`: the oldest cursor to continue from'),
    cause_code: refusalCode.optional().describe('On `operation_failed`: why the operation failed'),
  })
  .meta({ id: 'Problem' })
export type ProblemJson = z.infer<typeof problemJson>
