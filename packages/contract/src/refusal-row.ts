// A row of the table of refusals: the facts of one code.

export interface RefusalRow {
  status: number
  /** Sent as Retry-After, in seconds, if the exact request is safe to send again. */
  retryAfterSecs?: number
  /** Retry-After is up to twice as long, by chance: many are refused at once, and must not return at once. */
  spreads?: true
  /** What happened. Names no host, path or program of the service: customers read it. */
  what: string
  /** What to do about it, if something can be done. */
  next?: string
  /** The whole sentence, if it has parameters. */
  detail?: (params: never) => string
  /** Problem fields that come with the code, beside `code` and `detail`. */
  fields?: readonly (
    | 'field'
    | 'state'
    | 'claim'
    | 'operation_id'
    | 'desktop_id'
    | 'cause_code'
    | 'oldest_cursor'
    | 'holder'
    | 'since'
    | 'human_active'
    | 'exec_id'
    | 'quota'
    | 'stdout'
    | 'stderr'
    | 'stdout_truncated'
    | 'stderr_truncated'
    | 'right'
  )[]
  /** Only the `cause_code` of a failed operation, or an agent's answer; never the code of a response. */
  internalOnly?: true
  /**
   * Who refuses with it beside the service: a host; or a guest's file system, through its host, and then the response names
   * the path. Leadership, authentication and limits are not for a host to decide.
   */
  from?: 'host' | 'guest_files'
  /** A step that meets it is tried again: always, or while hosts may still be reconnecting to a new leader. */
  retried?: 'always' | 'while_hosts_return'
  /**
   * Another host may succeed. `host`: this one cannot make or run the desktop, and neither the guest nor the caller is at
   * fault. `image`: this one need not be at fault, because the image's web server may be unavailable.
   */
  fault?: 'host' | 'image'
  /** Another replica leads since, or a later request for the desktop was accepted. */
  overtakenBy?: 'leader' | 'request'
}
