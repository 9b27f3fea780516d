// Explains failures: one sentence, the next step, and an exit code for scripts.
import {
  AuthenticationError,
  ConflictError,
  ConnectionError,
  type DesktopState,
  DormouseError,
  InvalidRequestError,
  NotFoundError,
  OperationFailedError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
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
  /** Only of `admin host drain`. */
  blocked: 9,
  cancelled: 10,
  /** Only of `exec`: the command ended, but a part of its output was dropped. */
  incomplete: 124,
  /** Only of `exec`: every failure that is not the guest's own exit code. */
  exec: 125,
  interrupted: 130,
  brokenPipe: 141,
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

/** The command that may fail: its name, its desktop, and whether its output is JSON. */
export interface About {
  verb?: string
  /** The command's group: `org`, `key` or `host` below `admin`. */
  group?: string
  /** As it is typed, such as `admin host list`. */
  command?: string
  id?: string
  json?: boolean
  /** The profiles that the service's address and the key are from; undefined for the environment. */
  urlOf?: string
  keyOf?: string
  /** It runs until Ctrl-C, which is then no failure. */
  endsByInterrupt?: boolean
}

export interface Explanation {
  message: string
  next?: string
  exitCode: number
}

/** Explains a failure of the command that `about` names. */
export function explain(error: unknown, about: About = {}): Explanation {
  if (error instanceof CliError) return error
  if (error instanceof DormouseError)
    return { message: error.message, next: nextStep(error, about), exitCode: codeOf(error) }
  // A bug: shown with its stack, so that it can be reported.
  return {
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    exitCode: exitCodes.failed,
  }
}

/** The facts that programs act on, if they are known. */
export function factsOf(error: unknown): object {
  if (error instanceof CliError) return error.facts
  if (!(error instanceof DormouseError)) return {}
  const { code, status, operationId, problem } = error
  const causeCode = error instanceof OperationFailedError ? error.causeCode : undefined
  const { field, right, state, claim, holder, since, human_active, oldest_cursor, desktop_id } = problem ?? {}
  const held = { claim, holder, since, human_active }
  return {
    code,
    status,
    operation_id: operationId,
    cause_code: causeCode,
    field,
    right,
    state,
    ...held,
    oldest_cursor,
    desktop_id,
  }
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

/** By codes and fields alone. If an older service leaves a field out, the step is the general one of the code. */
function nextStep(error: DormouseError, about: About): string | undefined {
  const { id = '<id>', verb, group = '' } = about
  const list = lists[verb ?? ''] ?? lists[group]
  if (isUnknown(error) && list) return `${list} lists them`
  if (error.code === 'wrong_state' || error.code === 'not_awake') return fromState(error, id, verb)
  if (error.code === 'guest_deadline' && verb !== 'exec') return `retry; \`dormouse open ${id}\` shows its screen`
  if (error.code === 'claim_held' && verb === 'input') return 'retry later, or run the same command with --takeover'
  if (error.code === 'claim_held') return toTakeOver(error, id)
  if (error instanceof OperationFailedError) return fromCause(error, id)
  const holder = error.problem?.desktop_id
  if (error.code === 'name_taken' && holder) return `\`dormouse get ${holder}\` shows the desktop that has the name`
  return byCode[error.code ?? '']?.(id) ?? byKind(error, about)
}

const isUnknown = (error: DormouseError) => error instanceof NotFoundError || isMalformedId(error)

/** Fields of requests that hold an id. */
const idFields = new Set(['id', 'org_id'])

const isMalformedId = ({ problem }: DormouseError) => problem?.status === 400 && idFields.has(problem.field ?? '')

/** The commands that list what an operator can name. */
const lists: Record<string, string> = {
  org: '`dormouse admin org list`',
  key: '`dormouse admin org list`, and for keys `dormouse admin key list --org <id>`,',
  host: '`dormouse admin host list`',
  uninvite: '`dormouse admin host invites`',
  'operator-key': '`dormouse admin operator-key list`',
  desktop: '`dormouse admin desktop list`',
}

function fromState({ problem, code }: DormouseError, id: string, verb: string | undefined): string {
  const state = problem?.state
  if (state === 'failed') return `dormouse destroy ${id}, then dormouse create`
  if (code === 'not_awake') return state && gone.has(state) ? 'dormouse create' : `dormouse wake ${id}`
  if (state && changing.has(state)) return `\`dormouse operations ${id}\` shows what is in progress`
  if (verb === 'wake' && state === 'awake') return 'nothing to do; it is already awake'
  if (verb === 'hibernate' && state && asleep.has(state)) return `nothing to do; to wake it: dormouse wake ${id}`
  return look(id)
}

const asleep = new Set<DesktopState>(['created', 'hibernated', 'stopped'])
const changing = new Set<DesktopState>(['waking', 'hibernating', 'destroying'])
const gone = new Set<DesktopState>(['destroying', 'destroyed'])

/** Names no command if the claim is unknown: the wrong one would take another claim from its holder. */
const toTakeOver = ({ problem }: DormouseError, id: string) =>
  problem?.claim === undefined
    ? 'to take it over, run the same command with --takeover'
    : `take it over: dormouse open ${id} --takeover${problem.claim === 'view' ? ' --view' : ''}`

const fromCause = ({ causeCode }: OperationFailedError, id: string) =>
  causeCode === 'image_unavailable'
    ? `dormouse destroy ${id}, then dormouse create --image <version>, with an image that hosts have`
    : `\`dormouse operations ${id}\` shows what failed`

const look = (id: string) => `\`dormouse get ${id}\` shows its state and generation`

const folder = (id: string) => `list it: dormouse exec ${id} -- ls -la <path>`

const byCode: Record<string, (id: string) => string> = {
  org_suspended: () => 'ask who runs the service to resume it',
  stale_generation: look,
  quota_exceeded: () => '`dormouse list` shows your desktops; `dormouse destroy <id>` frees one',
  command_not_run: (id) => `check its name and --cwd; to run a shell line: dormouse exec ${id} -- sh -c '…'`,
  file_not_found: (id) => `list the folder: dormouse exec ${id} -- ls -la <folder>`,
  is_directory: () => 'name a file in it; `dormouse cp -r` copies a whole folder',
  not_directory: folder,
  not_regular: folder,
  symlink_loop: folder,
  permission_denied: folder,
  read_only: (id) => `choose another folder; \`dormouse exec ${id} -- mount\` shows which are writable`,
  no_space: (id) => `free space in it: dormouse exec ${id} -- df -h`,
  quota_exceeded_in_guest: (id) => `see what uses it: dormouse exec ${id} -- du -xh --max-depth=1 <folder>`,
  busy: (id) => `see what uses it: dormouse exec ${id} -- mount`,
  file_exists: folder,
  exec_unknown: (id) => `\`dormouse execs ${id}\` lists those that are kept`,
  exec_limit: (id) => `\`dormouse execs ${id}\` lists them; \`dormouse signal ${id} <exec>\` ends one`,
  clipboard_unavailable: () => '`dormouse images` lists images; one with a desktop has a clipboard, such as `desktop`',
  screen_too_large: (id) => `dormouse resolution ${id} 1920x1080`,
  cursor_gone: () => '`dormouse events` without --after begins with the oldest that is kept',
  url_gone: () => '`dormouse url` makes another one',
  invite_spent: () => '`dormouse admin host invite` makes another one',
  archive_unsupported: () => 'install tar in the guest, or copy single files without -r',
  upload_lost: () => 'run the same command again',
  guest_unavailable: (id) => `retry in a moment; \`dormouse open ${id}\` shows its screen`,
  guest_deadline: () => 'raise --timeout-secs, or leave it out',
}

function byKind(error: DormouseError, about: About): string | undefined {
  const { command = '<command>' } = about
  if (error instanceof NotFoundError || isMalformedId(error)) return '`dormouse list` shows the ids of your desktops'
  if (error instanceof AuthenticationError) return toAuthenticate(about)
  if (error instanceof PermissionDeniedError)
    return isOperators(command) ? 'set DORMOUSE_OPERATOR_KEY to an operator key' : 'use a key that has the right'
  if (error instanceof TimeoutError && error.operationId)
    return `to keep waiting: dormouse operation ${error.operationId} --wait`
  if (error instanceof ConnectionError) return toConnect[error.why].replaceAll('DORMOUSE_URL', nameOfUrl(about))
  if (error instanceof UnavailableError || error instanceof RateLimitError) return 'retry in a moment'
  if (error instanceof InvalidRequestError) return `\`dormouse ${command} --help\` shows what it takes`
  // Every other refusal's text contains what to do.
  return error instanceof ServerError && error.requestId
    ? `quote request id ${error.requestId} to the operator`
    : undefined
}

function nameOfUrl({ verb, urlOf }: About): string {
  if (verb === 'login') return 'the URL'
  return urlOf === undefined ? 'DORMOUSE_URL' : `the URL of the profile "${urlOf}"`
}

function toAuthenticate({ command = '', verb, keyOf }: About): string {
  if (verb === 'login') return 'check that the key is complete; it was not kept'
  if (keyOf !== undefined) return `\`dormouse login <url> --profile ${keyOf}\` keeps another key`
  return isOperators(command)
    ? 'check DORMOUSE_OPERATOR_KEY; who runs the service has operator keys'
    : 'check DORMOUSE_API_KEY; `dormouse admin key create` makes a key, with an operator key'
}

const isOperators = (command: string) => /^admin\b/.test(command)

const toConnect: Record<ConnectionError['why'], string> = {
  bad_port: 'set DORMOUSE_URL, and PORT where the service starts, to another port, such as 8080',
  not_http: 'check that DORMOUSE_URL is the service’s address',
  untrusted:
    'NODE_EXTRA_CA_CERTS=/path/to/ca.pem dormouse …, or add the CA to the trust store of this machine, which is read by Node 22.19 or later, or ask who runs the service for a certificate of a public CA',
  expired: 'tell who runs the service to renew its certificate, if the clock of this machine is right',
  wrong_name: 'set DORMOUSE_URL to a name that the certificate has',
  tls: 'correct the scheme or the port in DORMOUSE_URL',
  unknown_host: 'correct the name in DORMOUSE_URL, or check the DNS of this machine',
  refused: 'check that the service runs (`npm start` in the clone starts it) and that DORMOUSE_URL names its port',
  unreachable: 'check that DORMOUSE_URL names the service, and that a firewall lets this machine through',
  cut: 'check that the service runs (`npm start` in the clone starts it) and that DORMOUSE_URL names it, with https:// if it speaks TLS',
}
