// Guarantee: what a guest sends to our program is checked, an image that cannot have it is refused by what it lacks, and all of
// it is one call that the guest agent's channel can carry. (With guests: test/real/guest-first-meeting.test.ts.)
import { execFileSync } from 'node:child_process'
import { Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { AgentRefused } from '../driver/guest-access.ts'
import { bringIn, bringInScript, packedProgram } from './bring-in.ts'

const hostKey = 'A'.repeat(68)
const printing = (stdout: string, exitCode = 0) => ({
  run: async () => ({ exitCode, signal: undefined, stdout: Buffer.from(stdout), stderr: Buffer.alloc(0) }),
})
const bring = (stdout: string, exitCode?: number) => bringIn(printing(stdout, exitCode), 'ssh-ed25519 AAAA dormouse')

test('the host key is returned; without a key of ours, nothing', async () => {
  expect(await bring(`ssh-ed25519 ${hostKey} root@guest\n`)).toBe(hostKey)
  expect(await bringIn(printing(''))).toBe('')
})

test.each([
  ['nothing', ''],
  ['a key of another kind', `ssh-rsa ${hostKey}`],
  ['an endless key', `ssh-ed25519 ${'A'.repeat(1_000_000)}`],
  ['something that is not a key', 'ssh-ed25519 {"a":1}'],
  ['a word that is not known', 'no idea'],
])('a guest that prints %s is refused', async (_what, stdout) => {
  await expect(bring(stdout)).rejects.toMatchObject({ code: 'guest_unavailable' })
})

test('a script that fails is no success, whatever it has printed', async () => {
  await expect(bring(`ssh-ed25519 ${hostKey} x\n`, 1)).rejects.toMatchObject({ code: 'guest_unavailable' })
})

test.each([
  ['no sshd\n', 'the image has no sshd'],
  ['no program\n', 'the guest has no writable folder that runs programs'],
])('%s: the image is refused by that', async (stdout, words) => {
  await expect(bring(stdout)).rejects.toMatchObject({ code: 'image_unsuited', detail: expect.stringContaining(words) })
})

test('an agent whose programs are disabled is one of an image that is refused; one that fails is not', async () => {
  const refusing = (message: string) => {
    const refusal = new Refusal('guest_unavailable')
    refusal.cause = new AgentRefused(message)
    return { run: () => Promise.reject(refusal) }
  }
  const disabled = bringIn(refusing('Command guest-exec has been disabled'), 'key')
  await expect(disabled).rejects.toMatchObject({ code: 'image_unsuited' })
  await expect(bringIn(refusing('out of memory'), 'key')).rejects.toMatchObject({ code: 'guest_unavailable' })
})

test.each([undefined, `ssh-ed25519 ${'A'.repeat(68)} it's`])(
  'with the key %s it is a script, and fits into one call',
  (key) => {
    const script = bringInScript(key)
    execFileSync('/bin/sh', ['-n'], { input: script })
    const call = { path: '/bin/sh', arg: ['-c', script], 'capture-output': true, 'input-data': '' }
    const bytes = Buffer.byteLength(JSON.stringify(call)) + packedProgram.toString('base64').length
    expect(bytes).toBeLessThan(56 * 1024)
  },
)
