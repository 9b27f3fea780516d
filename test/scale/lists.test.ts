// Guarantee: six whole lists of 200,000 desktops at once cost bounded memory and nobody's leadership. In short:
// `test/integration/lists.test.ts`.
import { request } from 'node:http'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'

const desktops = 200_000
const lists = 6

test('six lists of 200,000 desktops at once', async () => {
  await using stack = await Stack.start()
  await stack.database.rows(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs, billing_mode)
     select gen_random_uuid(), $1, 'small', 'created', 'mini', 1, 512, 10, 1800, 'hourly' from generate_series(1, ${desktops})`,
    [stack.org.id],
  )
  const { epoch } = stack.replica.parts.leadership.term!
  const before = process.memoryUsage().rss
  let peak = before
  const watching = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 50)
  const delay = monitorEventLoopDelay({ resolution: 10 })
  delay.enable()
  const began = performance.now()
  const list = () =>
    new Promise<{ status: number; bytes: number; whole: boolean }>((resolve, reject) => {
      const headers = { authorization: `Bearer ${stack.org.key}` }
      const sent = request(`${stack.url}/v1/desktops`, { headers, agent: false }, (answer) => {
        let [bytes, end] = [0, '']
        answer.on('data', (chunk: Buffer) => {
          bytes += chunk.length
          end = chunk.subarray(-2).toString()
        })
        answer.on('end', () => resolve({ status: answer.statusCode!, bytes, whole: end === ']}' }))
        answer.on('error', reject)
      })
      sent.on('error', reject).end()
    })
  const answers = await Promise.all(Array.from({ length: lists }, list))
  clearInterval(watching)
  const rssGrewMiB = Math.round((peak - before) / 2 ** 20)
  const worstStallMs = Math.round(delay.max / 1e6)
  console.log({ ms: Math.round(performance.now() - began), rssGrewMiB, worstStallMs, answers })
  expect(answers.every(({ status, whole }) => status === 200 && whole)).toBe(true)
  // Six lists as texts alone are 400 MiB, and their rows twice that. The caller, who is in this process, takes some, too.
  expect(rssGrewMiB).toBeLessThan(400)
  expect(stack.replica.parts.leadership.term?.epoch).toBe(epoch)
})
