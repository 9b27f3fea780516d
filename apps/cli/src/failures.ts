// What went wrong, for people: one sentence, the next step, and an exit code for scripts.
import {
  AuthenticationError,
  ConflictError,
  ConnectionError,
  DormouseError,
  InvalidRequestError,
  NotFoundError,
  OperationFailedError,
  PermissionDeniedError,
  RateLimitError,
  TimeoutError,
  UnavailableError,
} from '@dormouse/client'

/** Documented in README.md and in `dormouse --help`; a test holds them equal. */
export const exitCodes = {
  failed: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  operationFailed: 5,
  unavailable: 6,
  denied: 7,
  timedOut: 8,
  /** Of `exec` alone, for every failure that is not the guest's own exit code. */
  exec: 125,
  interrupted: 130,
  terminated: 143,
} as const

/** A failure that the command line itself finds. */
export class CliError extends Error {
  override name = 'CliError'
  readonly next: string
  readonly exitCode: number
  /** For programs. */
  readonly facts: object

  constructor(message: string, next: string, exitCode: number = exitCodes.failed, facts: object = {}) {
    super(message)
    this.facts = facts
    this.next = next
    this.exitCode = exitCode
  }
}

/** What a failure would be about: the command, its desktop, and whether a program asked. */
export interface About {
  verb?: string
  /** What the command belongs to: `org`, `key` and `host` are operators'. */
  group?: string
  id?: string
  json?: boolean
}

export interface Explanation {
  message: string
  next?: string
  exitCode: number
}

/** What to tell about a failure of the command that `about` names. */
export function explain(error: unknown, about: About = {}): Explanation {
  if (error instanceof CliError) return error
  if (error instanceof DormouseError)
    return { message: error.message, next: nextStep(error, about), exitCode: codeOf(error) }
  // A bug of ours: told whole, so that it can be reported.
  return {
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    exitCode: exitCodes.failed,
  }
}

/** What programs act on, where it is known. */
export function factsOf(error: unknown): object {
  if (error instanceof CliError) return error.facts
  if (!(error instanceof DormouseError)) return {}
  return { code: error.code, status: error.status, operation_id: error.operationId }
}

const codes: [new (...given: never[]) => DormouseError, number][] = [
  [OperationFailedError, exitCodes.operationFailed],
  [ConflictError, exitCodes.conflict],
  [NotFoundError, exitCodes.notFound],
  [InvalidRequestError, exitCodes.usage],
  [AuthenticationError, exitCodes.denied],
  [PermissionDeniedError, exitCodes.denied],
  [TimeoutError, exitCodes.timedOut],
  [ConnectionError, exitCodes.unavailable],
  [UnavailableError, exitCodes.unavailable],
  [RateLimitError, exitCodes.unavailable],
]

function codeOf(error: DormouseError): number {
  return codes.find(([kind]) => error instanceof kind)?.[1] ?? exitCodes.failed
}

function nextStep(error: DormouseError, { id = '<id>', verb, group = '' }: About): string | undefined {
  if (isUnknown(error) && lists[group]) return `${lists[group]} shows what is there.`
  if (/^the desktop is failed/.test(error.message)) return `dormouse destroy ${id}, then dormouse create`
  if (error.code === 'wrong_state') return fromState(error, id, verb)
  if (error.code === 'not_awake' && /^the desktop is destroy/i.test(error.message)) return 'dormouse create'
  if (error.code === 'guest_deadline' && verb !== 'exec') return `try again; \`dormouse open ${id}\` shows its screen.`
  if (error.code === 'claim_held') return toTakeOver(error, id)
  return byCode[error.code ?? '']?.(id) ?? byKind(error, id)
}

const isUnknown = (error: DormouseError) =>
  error instanceof NotFoundError || (error instanceof InvalidRequestError && error.message.includes('must be a UUID'))

/** Where operators find what they can name. */
const lists: Record<string, string> = {
  org: '`dormouse admin org list`',
  key: '`dormouse admin org list`, and for keys `dormouse admin key list --org <id>`,',
  host: '`dormouse admin host list`',
}

/** The service's sentence begins with the state that it found. */
function fromState({ message }: DormouseError, id: string, verb: string | undefined): string {
  const state = /^the desktop is (\w+)/.exec(message)?.[1]
  if (state?.endsWith('ing')) return `\`dormouse operations ${id}\` shows what is under way.`
  if (verb === 'wake' && state === 'awake') return 'nothing to do: it is awake already.'
  if (verb === 'hibernate' && state && asleep.has(state)) return `nothing to do; to wake it: dormouse wake ${id}`
  return look(id)
}

/** The service's sentence names the claim. */
const toTakeOver = ({ message }: DormouseError, id: string) =>
  `take it over: dormouse open ${id} --takeover${message.includes('claim "view"') ? ' --view' : ''}`

const asleep = new Set(['created', 'hibernated', 'stopped'])

const look = (id: string) => `\`dormouse get ${id}\` shows its state and generation.`

const folder = (id: string) => `see what it is: dormouse exec ${id} -- ls -la <path>`

const byCode: Record<string, (id: string) => string> = {
  stale_generation: look,
  quota_exceeded: () => '`dormouse list` shows what there is, `dormouse destroy <id>` makes room.',
  not_awake: (id) => `dormouse wake ${id}`,
  command_not_run: (id) => `check its name and --cwd; a line for the shell is run by: dormouse exec ${id} -- sh -c '…'`,
  file_not_found: (id) => `see what is there: dormouse exec ${id} -- ls -la <folder>`,
  is_directory: () => 'name a file in it; one is copied at a time.',
  not_directory: folder,
  not_regular: folder,
  symlink_loop: folder,
  permission_denied: folder,
  read_only: (id) => `choose another folder; \`dormouse exec ${id} -- mount\` shows which can be written.`,
  no_space: (id) => `make room: dormouse exec ${id} -- df -h`,
  guest_unavailable: (id) => `try again in a moment; \`dormouse open ${id}\` shows its screen.`,
  guest_deadline: () => 'give it longer with --timeout-secs (300 at most), or start it in the background.',
}

function byKind(error: DormouseError, id: string): string | undefined {
  if (error instanceof OperationFailedError && /^no host has the (desktop’s )?image/i.test(error.message))
    return `dormouse destroy ${id}, then create one with --image and an image that hosts have.`
  if (error instanceof OperationFailedError) return `\`dormouse operations ${id}\` shows what was tried.`
  if (error instanceof NotFoundError) return '`dormouse list` shows what is there.'
  if (error instanceof AuthenticationError)
    return 'check DORMOUSE_API_KEY (DORMOUSE_OPERATOR_KEY for admin); `dormouse admin key create` makes a key.'
  if (error instanceof PermissionDeniedError) return 'admin commands need an operator key, in DORMOUSE_OPERATOR_KEY.'
  if (error instanceof TimeoutError && error.operationId)
    return `go on waiting with: dormouse operation ${error.operationId} --wait`
  if (error instanceof ConnectionError)
    return 'is it running? `npm start` in the clone starts it; DORMOUSE_URL names another.'
  if (error instanceof UnavailableError || error instanceof RateLimitError)
    return 'this may pass: try again in a moment.'
  if (error instanceof InvalidRequestError && error.message.includes('must be a UUID'))
    return '`dormouse list` shows the ids of desktops.'
  if (error instanceof InvalidRequestError) return '`dormouse help` shows the commands, `--help` after one its options.'
  return error.requestId && `request id ${error.requestId} finds it in the service’s log.`
}
