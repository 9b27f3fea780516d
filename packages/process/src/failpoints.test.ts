// Guarantee: an armed failpoint acts, and one that is not armed does nothing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { ArmedFailpoints, FailpointError, failpointsFrom, noFailpoints } from './failpoints.ts'

/** Hits "here" twice in a child process, which prints a line before and after each. */
function child(armed: string) {
  const script = `
    import { failpointsFrom } from '${import.meta.resolve('./failpoints.ts')}'
    const points = failpointsFrom(process.argv[1])
    for (const round of [1, 2]) {
      console.log('before', round)
      await points.hit('here')
      console.log('after', round)
    }`
  return spawn(process.execPath, ['--input-type=module', '-e', script, armed], { stdio: ['ignore', 'pipe', 'inherit'] })
}

async function outcomeOf(armed: string) {
  const running = child(armed)
  let said = ''
  running.stdout.setEncoding('utf8').on('data', (text) => {
    said += text
  })
  const [code, signal] = await once(running, 'close')
  return { code, signal, said: said.trim().split('\n') }
}

test('does nothing if nothing is armed', async () => {
  expect(failpointsFrom('')).toBe(noFailpoints)
  await noFailpoints.hit('anywhere')
})

test('kill ends the process like a power cut, at the given hit', async () => {
  expect(await outcomeOf('here=kill@2')).toEqual({
    code: null,
    signal: 'SIGKILL',
    said: ['before 1', 'after 1', 'before 2'],
  })
})

test('exit ends the process with the given code', async () => {
  expect(await outcomeOf('here=exit:7')).toEqual({ code: 7, signal: null, said: ['before 1'] })
})

test('freeze stops the process until SIGCONT', async () => {
  const running = child('here=freeze@1')
  const gone = once(running, 'close')
  const stopped = async () => (await import('node:fs/promises')).readFile(`/proc/${running.pid}/stat`, 'utf8')
  await expect.poll(async () => (await stopped()).split(') ')[1]?.[0]).toBe('T')
  running.kill('SIGCONT')
  expect(await gone).toEqual([0, null])
})

test('throw fails at that place only', async () => {
  const points = failpointsFrom('wake.before-mark=throw, save.after=delay:1')
  await points.hit('wake.after-mark')
  await points.hit('save.after')
  await expect(points.hit('wake.before-mark')).rejects.toBeInstanceOf(FailpointError)
})

test('records every hit in order and calls listeners, so that a test can learn all names', async () => {
  const points = new ArmedFailpoints()
  const heard: string[] = []
  points.onHit((name) => void heard.push(name))
  for (const name of ['a', 'b', 'a']) await points.hit(name)
  expect(points.hits).toEqual(['a', 'b', 'a'])
  expect(points.names).toEqual(['a', 'b'])
  expect(heard).toEqual(['a', 'b', 'a'])
})

test('a place can be armed with a function, and disarmed', async () => {
  const points = new ArmedFailpoints()
  const reached: string[] = []
  points.set('a', (name) => void reached.push(name))
  await points.hit('a')
  points.set('a', undefined)
  await points.hit('a')
  expect(reached).toEqual(['a'])
})

test('the name * matches every name, and counts every hit', async () => {
  const points = failpointsFrom('*=throw@3')
  await points.hit('a')
  await points.hit('b')
  await expect(points.hit('c')).rejects.toThrow('failpoint c')
})

test.each(['here', 'here=', '=kill', 'here=melt', 'here=kill@0', 'here=delay:soon', 'here=constructor'])(
  'reports what is wrong with "%s"',
  (text) => {
    expect(() => failpointsFrom(text)).toThrow(/is not a failpoint/)
  },
)
