// The floor of a GET: bare Fastify, one query by primary key, in a thread of its own.
import { parentPort, workerData } from 'node:worker_threads'
import fastify from 'fastify'
import pg from 'pg'

const { databaseUrl, id } = workerData as { databaseUrl: string; id: string }
const pool = new pg.Pool({ connectionString: databaseUrl, max: 16, application_name: 'bench-floor' })
// A connection that breaks while nobody asks is replaced by the pool.
pool.on('error', () => undefined)
const app = fastify()
app.get('/', async () => {
  const { rows } = await pool.query({ name: 'one', text: 'select * from desktops where id = $1', values: [id] })
  return rows[0]
})
await app.listen({ port: 0, host: '127.0.0.1' })
const address = app.server.address()
parentPort!.postMessage(typeof address === 'object' ? address?.port : undefined)
