// A database of one stack: its own copy of the migrated template, dropped with it. Knows no table.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { databaseNamed, templateName } from '../../setup/postgres.ts'

export class Database {
  readonly url: string
  readonly #server: string
  readonly #name: string
  readonly #pool: pg.Pool

  private constructor(server: string, name: string) {
    this.#server = server
    this.#name = name
    this.url = databaseNamed(server, name)
    this.#pool = new pg.Pool({ connectionString: this.url, max: 2, application_name: 'test' })
    this.#pool.on('error', () => undefined)
  }

  /** Copies the template on that server, file by file: its pages need not pass through the log. */
  static async create(server: string): Promise<Database> {
    const name = `stack_${randomBytes(6).toString('hex')}`
    await onServer(server, (client) =>
      client.query(`create database ${name} template ${templateName} strategy file_copy`),
    )
    return new Database(server, name)
  }

  /** A database without any table, for a control plane that migrates it. */
  static async empty(server: string): Promise<Database> {
    const name = `stack_${randomBytes(6).toString('hex')}`
    await onServer(server, (client) => client.query(`create database ${name}`))
    return new Database(server, name)
  }

  async rows<R extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<R[]> {
    return (await this.#pool.query<R>(text, values)).rows
  }

  /** Runs the statement in a transaction that stays open, with its locks, until what it answers is called. */
  async hold(text: string): Promise<() => Promise<void>> {
    const client = await this.#pool.connect()
    await client.query(`begin; ${text}`)
    return async () => {
      await client.query('commit')
      client.release()
    }
  }

  /** Ends the sessions of that name, as a network that forgets them would. Returns how many there were. */
  async endSessions(applicationName: string): Promise<number> {
    const ended = await this.rows(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = $1`,
      [applicationName],
    )
    return ended.length
  }

  /** Drops it; returns how many sessions others still had open. */
  async drop(): Promise<number> {
    await this.#pool.end()
    return onServer(this.#server, async (client) => {
      const sessions = async () => {
        const { rows } = await client.query<{ count: number }>(
          `select count(*)::int as count from pg_stat_activity where datname = $1 and backend_type = 'client backend'`,
          [this.#name],
        )
        return rows[0]!.count
      }
      // A session that has said goodbye is still listed for a moment.
      let left = await sessions()
      for (let look = 0; left > 0 && look < 100; look++) {
        await client.query('select pg_sleep(0.01)')
        left = await sessions()
      }
      await client.query(`drop database ${this.#name} with (force)`)
      return left
    })
  }
}

async function onServer<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
