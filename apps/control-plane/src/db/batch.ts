// Statements for one connection that are sent together, with one `Sync` of Postgres' protocol behind them: where one fails,
// Postgres skips the rest. Knows no transaction.
import pg from 'pg'

/** What `pg` calls on a query while it is answered. Its types do not describe them. */
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
  stream: { cork(): void; uncork(): void; destroy(error: Error): void }
  submittedNamedStatements: Record<string, string>
  sync(): void
}

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
    // The transaction fails with it, also where its caller has stopped waiting.
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

/** To the connection it is one query. It passes each answer to the statement whose turn it is. */
class SentTogether extends AnyQuery {
  readonly #queries: Answered[]
  #at = 0

  constructor(queries: Answered[]) {
    super('')
    this.#queries = queries
    this.callback = () => undefined
    this.#turn()
  }

  get #current(): Answered | undefined {
    return this.#queries[this.#at]
  }

  /** `pg` notes by these that a statement is prepared on the connection. */
  #turn(): void {
    this.name = this.#current?.name
    this.text = this.#current?.text ?? ''
  }

  submit(connection: Connection): null {
    const unsynced: Connection = Object.create(connection, { sync: { value: () => undefined } })
    let failed: Error | undefined
    connection.stream.cork()
    try {
      for (const query of this.#queries) {
        const { callback } = query
        query.callback = (error) => {
          failed ??= error ?? undefined
        }
        query.prepare(unsynced)
        query.callback = callback
      }
      // A value could not be written. What is written must not be sent without it.
      if (failed) connection.stream.destroy(failed)
      else connection.sync()
    } finally {
      connection.stream.uncork()
    }
    return null
  }

  override handleRowDescription(message: unknown): void {
    this.#current?.handleRowDescription(message)
  }

  override handleDataRow(message: unknown): void {
    this.#current?.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    const query = this.#current
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
