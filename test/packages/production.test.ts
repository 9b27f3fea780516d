// Guarantee: the commands of docs/production.md, run as they stand there on two machines of Debian with systemd, end with a desktop
// that was woken from memory; and the packages are upgraded, taken back, removed, purged and installed again without a loss.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { ensureSdk } from '../../scripts/build/sdk.ts'
import { addToRepository } from '../../scripts/release/apt.ts'
import { packDebian } from '../../scripts/release/debian.ts'
import { DebianMachine } from '../install/debian-machine.ts'
import { blocksOf } from './page.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const epoch = 1_790_000_000
const next = `${release.version}+next`
const began = performance.now()
const say = (words: string) =>
  console.log(`[${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s] ${words}`)

const folder = mkdtempSync('/var/tmp/dormouse-production-')
const network = `dormouse-${process.pid}`
const blocks = blocksOf(join(root, 'docs/production.md'))
const machines: Record<string, DebianMachine> = {}
let web: ChildProcess

/** Without the mirror: what the page installs from Debian is there already. */
const needed: Record<string, string[]> = {
  'cp-1': ['curl', 'openssl', 'jq', 'postgresql', 'caddy'],
  'host-1': [
    ...['curl', 'libvirt-daemon-system', 'qemu-system-x86', 'qemu-utils', 'iptables', 'nftables', 'dnsmasq-base'],
  ],
}

async function makeRepository(): Promise<void> {
  const keys = join(folder, 'keys')
  mkdirSync(keys, { mode: 0o700 })
  process.env.GNUPGHOME = keys
  const words = [
    '--batch',
    '--passphrase',
    '',
    '--quick-generate-key',
    'packages@dormouse.example',
    'default',
    'default',
  ]
  execFileSync('gpg', words, { stdio: 'ignore' })
  await ensureSdk(() => undefined)
  const given = { npm: join(root, 'apps/control-plane/dist/sdk'), epoch, uncompressed: true, say }
  for (const version of [release.version, next]) {
    const made = join(folder, 'made')
    mkdirSync(made)
    const files = await packDebian(made, { ...given, version })
    const options = { epoch, key: 'packages@dormouse.example' }
    addToRepository(
      join(folder, 'repository'),
      files.map((name) => join(made, name)),
      options,
    )
    rmSync(made, { recursive: true })
  }
}

beforeAll(async () => {
  await makeRepository()
  const { dir } = await ensureMiniImage({ imagesDir: join(root, '.dormouse-test/images'), say })
  execFileSync('ip', ['netns', 'add', network])
  execFileSync('ip', ['-n', network, 'link', 'set', 'lo', 'up'])
  const path = `/run/netns/${network}`
  const served = ['busybox', 'httpd', '-f', '-p', '127.0.0.1:8000', '-h', join(folder, 'repository')]
  web = spawn('nsenter', [`--net=${path}`, ...served], { stdio: 'ignore' })
  for (const [name, include] of Object.entries(needed)) {
    say(`${name}: making and booting a machine`)
    const machine = await DebianMachine.boot(join(folder, name), { include, network: path })
    machines[name] = machine
    appendFileSync(join(machine.root, 'etc/hosts'), `127.0.0.1 dormouse.example ${name}\n`)
    // The mirror cannot be reached from here.
    writeFileSync(join(machine.root, 'etc/apt/sources.list'), '')
    await machine.ssh(`hostname ${name}`)
  }
  const host = machines['host-1']!
  cpSync(dir, join(host.root, 'var/lib/dormouse-images/mini'), { recursive: true, dereference: true })
  host.withoutCgroups()
  await host.ssh('chmod -R a+rX /var/lib/dormouse-images; systemctl restart libvirtd')
}, 1_500_000)

afterAll(async () => {
  web?.kill()
  for (const machine of Object.values(machines)) await machine[Symbol.asyncDispose]()
  execFileSync('ip', ['netns', 'delete', network])
  rmSync(folder, { recursive: true, force: true })
})

/** What differs from the reader's world: where the packages are served, and who signs the certificate. */
const adapted = (commands: string) =>
  commands
    .replaceAll('https://packages.dormouse.example', 'http://127.0.0.1:8000')
    .replace(/^dormouse\.example \{$/m, 'dormouse.example {\n\ttls internal')

const on = (machine: string, commands: string) => {
  writeFileSync(join(machines[machine]!.root, 'root/commands'), commands)
  return machines[machine]!.ssh('DEBIAN_FRONTEND=noninteractive bash -eo pipefail /root/commands 2>&1')
}

/** Caddy's own authority stands for that of the reader. */
async function trustAuthority(): Promise<void> {
  const [{ commands }] = blocks.filter(({ machine }) => machine === 'private-ca') as [(typeof blocks)[number]]
  const made = '/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt'
  await on('cp-1', `until [ -s ${made} ]; do sleep 0.2; done; cp ${made} our-ca.pem`)
  cpSync(join(machines['cp-1']!.root, 'root/our-ca.pem'), join(machines['host-1']!.root, 'root/our-ca.pem'))
  for (const machine of Object.keys(machines)) await on(machine, commands)
}

test('the commands of the page, one after another', { timeout: 1_500_000 }, async () => {
  expect(blocks.flatMap(({ commands }) => commands.trim().split('\n')).length).toBeLessThanOrEqual(60)
  for (const { machine, heading, commands } of blocks) {
    if (machine === 'private-ca') continue
    say(`${machine}: ${heading}: ${commands.split('\n', 1)[0]}`)
    const names = machine === 'every' ? Object.keys(machines) : [machine]
    let text = adapted(commands)
    // The page's own order: the certificate is there when Caddy has started.
    if (text.includes('systemctl restart caddy')) {
      const [before, after] = text.split(/(?<=systemctl restart caddy\n)/) as [string, string]
      await on(machine, before)
      await trustAuthority()
      text = after
    }
    for (const name of names) {
      const output = await on(name, text).catch(async (error: Error) => {
        const log = await machines[name]!.ssh('journalctl --no-pager -n 60 2>&1').catch(() => '')
        throw new Error(`${name}: ${text}\n${error.message}\n${log}`)
      })
      console.log(output)
    }
    if (machine === 'cp-1' && text.includes('/root/invitation'))
      cpSync(join(machines['cp-1']!.root, 'root/invitation'), join(machines['host-1']!.root, 'root/invitation'))
  }
  expect(await on('cp-1', 'dormouse list')).toContain('awake')
})

test('both units are sound and hardened', async () => {
  for (const [name, unit, most] of [
    ['cp-1', 'dormouse-control-plane', 2],
    ['host-1', 'dormouse-agent', 3],
  ] as const) {
    expect(await on(name, `systemd-analyze verify ${unit}.service`)).toBe('')
    const said = await on(name, `systemd-analyze security --no-pager ${unit}`)
    expect(Number(/exposure level for \S+: ([\d.]+)/.exec(said)?.[1])).toBeLessThan(most)
    say(`${unit}: ${/exposure level for .*/.exec(said)?.[0]}`)
  }
})

/** Prefixes commands that use the only desktop. */
const idOf = 'id=$(dormouse list --json | jq -r .desktops[0].id)'

test('an upgrade and the way back restart the programs alone; what a desktop runs goes on', {
  timeout: 900_000,
}, async () => {
  await on('cp-1', `${idOf}; dormouse exec "$id" -- sh -c 'echo kept > /run/kept'`)
  for (const version of [next, release.version]) {
    say(`to ${version}`)
    for (const name of Object.keys(machines)) {
      const unit = name === 'cp-1' ? 'dormouse-control-plane' : 'dormouse-agent'
      await on(name, `apt-get install -y --allow-downgrades ${unit}=${version}; systemctl is-active ${unit}`)
      expect(await on(name, `dpkg-query -W -f '\${Version}' ${unit}`)).toBe(version)
    }
    const read = `${idOf}; for try in $(seq 60); do dormouse exec "$id" -- cat /run/kept && exit; sleep 1; done; exit 1`
    expect(await on('cp-1', read)).toContain('kept\n')
  }
})

test('a host that is removed keeps its desktops; a purge is refused while there are any', {
  timeout: 900_000,
}, async () => {
  const disks = 'ls /var/lib/dormouse-disks | grep -c qcow2'
  expect(await on('host-1', `apt-get remove -y dormouse-agent; pgrep -c qemu-system; ${disks}`)).toMatch(/\n1\n1\n$/)
  const refused = await on('host-1', '! apt-get purge -y dormouse-agent')
  expect(refused).toContain('this host has 1 desktops')
  expect(await on('host-1', disks)).toBe('1\n')
  await on('host-1', 'apt-get install -y --no-install-recommends dormouse-agent; systemctl is-active dormouse-agent')
  const read = 'for try in $(seq 60); do dormouse exec "$id" -- cat /run/kept && exit; sleep 1; done; exit 1'
  expect(await on('cp-1', `${idOf}; ${read}`)).toContain('kept\n')
  await on('cp-1', `${idOf}; dormouse destroy "$id"`)
  const purged = await on('host-1', 'apt-get purge -y dormouse-agent; ls /var/lib')
  expect(purged).toContain("Deleting /var/lib/dormouse-agent, with this host's identity")
  expect(purged).not.toMatch(/^dormouse-(agent|disks)$/m)
  expect(await on('cp-1', 'apt-get purge -y dormouse-control-plane; ! ls /etc/dormouse')).toContain(
    'The database stays as it is.',
  )
})
