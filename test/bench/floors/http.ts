// The floor of a read: bare Fastify with `pg`, a key that is looked up in memory, one query, no schema, no log. A program of
// its own, so that its CPU can be counted: `node http.ts`, with DATABASE_URL, KEY and PORT in its environment.
import { createHash } from 'node:crypto'
import fastify from 'fastify'
import pg from 'pg'

const { DATABASE_URL, KEY = '', PORT } = process.env
const digest = (text: string) => createHash('sha256').update(text).digest('base64')
const keys = new Map([[digest(KEY), { org: 'bench' }]])
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 16, application_name: 'bench-floor' })
// The pool replaces a connection that breaks while it is idle.
pool.on('error', () => undefined)
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

const app = fastify()
app.addHook('onRequest', async (request, reply) => {
  if (!keys.has(digest(request.headers.authorization?.slice('Bearer '.length) ?? ''))) await reply.code(401).send()
})
app.get<{ Params: { id: string } }>('/desktops/:id', async ({ params }) => {
  const { rows } = await pool.query({ name: 'one', text: 'select * from desktops where id = $1', values: [params.id] })
  return rows[0]
})
app.get<{ Querystring: { limit: string } }>('/desktops', async ({ query }) => {
  const text = 'select * from desktops order by id desc limit $1'
  const { rows } = await pool.query({ name: 'list', text, values: [query.limit] })
  return { desktops: rows }
})
await app.listen({ port: Number(PORT), host: '127.0.0.1' })
