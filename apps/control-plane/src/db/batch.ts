// Statements for one connection that are sent together, with one `Sync` of Postgres' protocol behind them: if one fails,
// Postgres skips the rest. Knows no transaction.
import pg from 'pg'

/** The methods that `pg` calls on a query while it is answered. Its types do not describe them. */
interface Answered {
  name: string | undefined
  text: string
  callback(error: Error | undefined | null, result?: pg.QueryResult): void
  prepare(connection: Connection): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleReadyForQuery(connection: Connection): void
  handleError(error: Error, connection: Connection): void
}

interface Connection {
  stream: { writable: boolean; write(bytes: Buffer): void }
  submittedNamedStatements: Record<string, string>
  sync(): void
  describe(): void
  _send(bytes: Buffer): void
}

/** The columns of each named statement that the connection has described before; null if it has none. */
const described = new WeakMap<object, Map<string, unknown>>()

const AnyQuery = pg.Query as unknown as new (text: string | pg.QueryConfig, values?: unknown[]) => Answered

/**
 * Collects the statements of one tick, then sends them. A statement that was skipped rejects with the error of the one that
 * failed.
 */
export class Batch {
  readonly #client: pg.PoolClient
  #unsent: Answered[] = []
  #isClosed = false

  constructor(client: pg.PoolClient) {
    this.#client = client
  }

  query<R extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string | pg.QueryConfig,
    values?: unknown[],
  ): Promise<pg.QueryResult<R>> {
    if (this.#isClosed) throw new Error('a statement was sent behind the end of its transaction')
    const { promise, resolve, reject } = Promise.withResolvers<pg.QueryResult<R>>()
    // The transaction fails with it, even if its caller no longer waits.
    promise.catch(() => undefined)
    const query = new AnyQuery(text, values)
    query.callback = (error, result) => (error ? reject(error) : resolve(result as pg.QueryResult<R>))
    if (this.#unsent.push(query) === 1) process.nextTick(() => this.send())
    return promise
  }

  /** Sends what was collected, without waiting for the end of the tick. */
  send(): void {
    if (this.#unsent.length === 0) return
    const queries = this.#unsent
    this.#unsent = []
    this.#client.query(new SentTogether(queries) as unknown as pg.Submittable)
  }

  /** Refuses further statements, and discards those that were not sent. */
  close(): void {
    this.#isClosed = true
    this.#unsent = []
  }
}

/** The connection sees it as one query. It passes each answer to the statement whose turn it is. */
class SentTogether extends AnyQuery {
  readonly #queries: Answered[]
  #at = 0
  #columns = new Map<string, unknown>()

  constructor(queries: Answered[]) {
    super('')
    this.#queries = queries
    this.callback = () => undefined
  }

  get #current(): Answered | undefined {
    return this.#queries[this.#at]
  }

  /** `pg` notes by name and text that a statement is prepared on the connection. */
  #turn(): void {
    const query = this.#current
    this.name = query?.name
    this.text = query?.text ?? ''
    const columns = query?.name && this.#columns.get(query.name)
    if (columns) query.handleRowDescription(columns)
  }

  submit(connection: Connection): Error | null {
    const written: Buffer[] = []
    const collecting: Connection = Object.create(connection, {
      _send: { value: (bytes: Buffer) => written.push(bytes) },
      sync: { value: () => undefined },
    })
    const known: Connection = Object.create(collecting, { describe: { value: () => undefined } })
    const columns = described.get(connection.stream) ?? new Map<string, unknown>()
    described.set(connection.stream, columns)
    this.#columns = columns
    for (const query of this.#queries) {
      let failed: Error | undefined
      const { callback } = query
      query.callback = (error) => {
        failed ??= error ?? undefined
      }
      query.prepare(query.name && columns.has(query.name) ? known : collecting)
      query.callback = callback
      // A value could not be written. Nothing is sent.
      if (failed) return failed
    }
    connection.sync.call(collecting)
    if (connection.stream.writable) connection.stream.write(Buffer.concat(written))
    this.#turn()
    return null
  }

  override handleRowDescription(message: unknown): void {
    const query = this.#current
    if (query?.name) this.#columns.set(query.name, message)
    query?.handleRowDescription(message)
  }

  override handleDataRow(message: unknown): void {
    this.#current?.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    const query = this.#current
    if (query?.name && !this.#columns.has(query.name)) this.#columns.set(query.name, null)
    this.#at++
    this.#turn()
    query?.handleCommandComplete(message, connection)
    query?.handleReadyForQuery(connection)
  }

  override handleReadyForQuery(): void {
    this.callback(null)
  }

  override handleError(error: Error, connection: Connection): void {
    const skipped = this.#queries.slice(this.#at)
    this.#at = this.#queries.length
    for (const query of skipped) {
      if (query.name) delete connection.submittedNamedStatements[query.name]
      query.handleError(error, connection)
    }
    this.callback(error)
  }
}
