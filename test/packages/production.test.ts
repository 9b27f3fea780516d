// Guarantee: the commands of docs/production.md, run as they stand there on four machines of Debian with systemd, end with a desktop
// that has moved to another host while it ran; reboots, upgrades, ways back, a package manager that is killed, removals and
// installations lose nothing. Control planes run Debian 13 in containers of systemd-nspawn, hosts run Debian 12 in emulated QEMU,
// whose KVM works: so this also tests what only KVM does.
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Fleet, isHost, type Name, names } from './fleet.ts'
import { type Block, blocksOf, commandsOf } from './page.ts'

const next = `${release.version}+next`
const longMs = 2_700_000
const began = performance.now()
const say = (words: string) =>
  console.log(`[${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s] ${words}`)
const blocks = blocksOf(fileURLToPath(new URL('../../docs/production.md', import.meta.url)))
const privateCa = blocks.find(({ machine }) => machine === 'private-ca')!
const own = blocks.filter((block) => block !== privateCa)
const fourth = own.filter(({ heading }) => heading.startsWith('4.'))

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.create(say)
  await fleet.publish(release.version)
  await fleet.boot()
}, longMs)
afterAll(() => fleet?.[Symbol.asyncDispose]())

/** What comes next needs what came before. */
let failed = false
beforeEach(({ skip, onTestFailed }) => {
  skip(failed, 'an earlier test failed')
  onTestFailed(() => {
    failed = true
  })
})

const on = (name: Name, commands: string) => fleet.on(name, commands)

/** What differs from the reader's world: where the packages are served, and who signs the certificate. */
const adapted = (commands: string) =>
  commands
    .replaceAll('https://packages.dormouse.example', 'http://packages.dormouse.example')
    .replace(/^\S*dormouse\.example \{$/gm, '$&\n\ttls internal')

/** Caddy's own authority stands for that of the reader. It makes it when it starts. */
async function trustAuthority(): Promise<void> {
  const made = '/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt'
  const authority = await on('cp-1', `until [ -s ${made} ]; do sleep 0.2; done; cat ${made}`)
  const trust = async (name: Name) => {
    await fleet.put(name, 'our-ca.pem', authority)
    await on(name, privateCa.commands)
  }
  await Promise.all(names.map(trust))
}

/** What the page asks its reader to carry from one machine to another. */
const carried: [string, Name, string[]][] = [
  ['/root/invitation', 'host-1', ['/root/invitation']],
  ['make-ssl-cert', 'cp-2', ['/etc/ssl/certs/ssl-cert-snakeoil.pem', '/etc/dormouse/credentials/DATABASE_URL']],
]

async function carryAfter(commands: string, renamed: (text: string) => string): Promise<void> {
  for (const [sign, to, files] of carried)
    for (const file of commands.includes(sign) ? files : [])
      await fleet.put(renamed(to) as Name, `/root/${file.split('/').at(-1)}`, await on('cp-1', `cat ${file}`))
}

async function follow({ machine, heading, commands }: Block, renamed = (text: string) => text): Promise<void> {
  const follows = async (name: Name) => {
    let text = renamed(adapted(commands))
    say(`${name}: ${heading}: ${text.split('\n', 1)[0]}`)
    // The certificate is there as soon as Caddy has started.
    if (text.includes('systemctl restart caddy')) {
      const [before, after] = text.split(/(?<=systemctl restart caddy.*\n)/) as [string, string]
      await on(name, before)
      await trustAuthority()
      text = after
    }
    console.log(await on(name, text))
  }
  await Promise.all((machine === 'every' ? names : [renamed(machine) as Name]).map(follows))
  if (machine === 'cp-1') await carryAfter(commands, renamed)
}

const idOf = 'id=$(dormouse list --json | jq -r .desktops[0].id)'

test('the commands of the page, one after another', { timeout: longMs }, async () => {
  expect(own.flatMap(commandsOf).length).toBeLessThanOrEqual(40)
  const seventh = own.findIndex(({ heading }) => heading.startsWith('7.'))
  for (const block of own.slice(0, seventh)) await follow(block)
  for (const block of fourth) await follow(block, (text) => text.replaceAll('host-1', 'host-2'))
  for (const block of own.slice(seventh)) await follow(block)
  expect(await on('cp-1', 'dormouse list')).toContain('awake')
  expect(await on('cp-1', 'dormouse admin host list')).toMatch(/ host-1 +removed/)
  expect(await on('cp-1', `dormouse admin replicas --json`)).toContain('cp-2.dormouse.example')
  // A live move that fails would be followed by one with a hibernation.
  const moves = `jq -r '.operations[] | select(.kind == "move") | .state'`
  expect(await on('cp-1', `${idOf}; dormouse operations "$id" --json | ${moves}`)).toBe('succeeded\n')
  for (const host of names.filter(isHost)) expect(await on(host, `! dmesg | grep 'apparmor="DENIED"'`)).toBe('')
})

test('the units are sound and hardened', async () => {
  for (const [name, unit, most] of [
    ['cp-1', 'dormouse-control-plane', 2],
    ['host-2', 'dormouse-agent', 3],
  ] as const) {
    expect(await on(name, `systemd-analyze verify ${unit}.service`)).toBe('')
    const said = await on(name, `systemd-analyze security --no-pager ${unit}`)
    expect(Number(/exposure level for \S+: ([\d.]+)/.exec(said)?.[1])).toBeLessThan(most)
    say(`${unit}: ${/exposure level for .*/.exec(said)?.[0]}`)
  }
})

const ids: Record<'asleep' | 'awake', string> = { asleep: '', awake: '' }
const state = async (id: string) => (await on('cp-1', `dormouse get ${id} --json | jq -r .state`)).trim()
/** The host's programs start again, so the first tries may fail. */
const read = (id: string, path: string) =>
  on('cp-1', `for try in $(seq 60); do dormouse exec ${id} -- cat ${path} && exit; sleep 1; done; exit 1`)
const usable = `until dormouse admin host list --json | jq -e '.hosts[] | select(.linked and .ailment == null)'; do sleep 1; done`

/** One desktop sleeps and one is awake; both have something in memory. */
async function expectKept(): Promise<void> {
  expect(await read(ids.awake, '/run/kept')).toContain('in memory\n')
  expect(await state(ids.asleep)).toBe('hibernated')
  say('waking what slept')
  await on('cp-1', `${usable}; dormouse wake ${ids.asleep}`)
  expect(await read(ids.asleep, '/run/kept')).toContain('in memory\n')
  await on('cp-1', `dormouse hibernate ${ids.asleep}`)
}

test('after a reboot of both machines, memory that was saved is there, and a desktop that was awake is stopped', {
  timeout: longMs,
}, async () => {
  ids.asleep = (await on('cp-1', `${idOf}; echo $id`)).trim()
  ids.awake = (await on('cp-1', 'dormouse create --tier small --image mini --wake --json | jq -r .id')).trim()
  const fill = `sh -c 'echo in memory > /run/kept; echo on disk > /home/user/kept; sync'`
  for (const id of Object.values(ids)) await on('cp-1', `dormouse exec ${id} -- ${fill}`)
  await on('cp-1', `dormouse hibernate ${ids.asleep}`)
  say('rebooting cp-1 and host-2')
  await Promise.all([fleet.reboot('cp-1'), fleet.reboot('host-2')])
  say('they are back')
  await on('cp-1', usable)
  await on('cp-1', `until [ "$(dormouse get ${ids.awake} --json | jq -r .state)" = stopped ]; do sleep 1; done`)
  await on('cp-1', `dormouse wake ${ids.awake}`)
  expect(await read(ids.awake, '/home/user/kept')).toBe('on disk\n')
  await on('cp-1', `dormouse exec ${ids.awake} -- sh -c '! cat /run/kept && echo in memory > /run/kept'`)
  await expectKept()
})

const unitOf = (name: Name) => (isHost(name) ? 'dormouse-agent' : 'dormouse-control-plane')
const versionOf = (name: Name) => on(name, `dpkg-query -W -f '\${Version} \${db:Status-Status}' ${unitOf(name)}`)
/** In the order of an upgrade; the way back goes the other way. */
const inOrder = (version: string): Name[] => {
  const order: Name[] = ['cp-1', 'cp-2', 'host-2']
  return version === next ? order : order.toReversed()
}

test('an upgrade and the way back restart the programs alone', { timeout: longMs }, async () => {
  await fleet.publish(next)
  for (const version of [next, release.version]) {
    for (const name of inOrder(version)) {
      say(`${name}: to ${version}`)
      const unit = unitOf(name)
      await on(
        name,
        `apt-get update; apt-get install -y --allow-downgrades ${unit}=${version}; systemctl is-active ${unit}`,
      )
      expect(await versionOf(name)).toBe(`${version} installed`)
    }
    await expectKept()
  }
})

test('a package manager that is killed in the middle of an upgrade loses nothing', { timeout: longMs }, async () => {
  for (const [status, version] of [
    ['half-installed', next],
    ['unpacked', release.version],
  ] as const)
    for (const name of inOrder(version)) {
      const unit = unitOf(name)
      const install = `apt-get install -y --allow-downgrades ${unit}=${version}`
      const isThere = `grep -qsx 'Status: .* ${status}' /var/lib/dpkg/status /var/lib/dpkg/updates/[0-9]*`
      say(`${name}: killing dpkg when it has ${status}`)
      const killed = `setsid ${install} > killed.log 2>&1 & until ${isThere}; do :; done; pkill -9 -x 'dpkg|apt-get'; wait $! || true`
      await on(name, killed)
      expect(await versionOf(name)).toMatch(/ (half-installed|unpacked|half-configured)$/)
      // dpkg leaves what is half installed to apt, which gets the package again.
      await on(name, `dpkg --configure -a || true; apt-get -f install -y; ${install}; systemctl is-active ${unit}`)
      expect(await versionOf(name)).toBe(`${version} installed`)
    }
  await expectKept()
})

test('a host that is removed keeps its desktops; a purge is refused while there are any', {
  timeout: longMs,
}, async () => {
  const disks = 'ls /var/lib/dormouse-disks | grep -c qcow2'
  expect(await on('host-2', `apt-get remove -y dormouse-agent; pgrep qemu-system; ${disks}`)).toMatch(/\n\d+\n2\n$/)
  expect(await on('host-2', '! apt-get purge -y dormouse-agent')).toContain('this host has 2 desktops')
  expect(await on('host-2', disks)).toBe('2\n')
  await on('host-2', `apt-get install -y dormouse-agent=${release.version}; systemctl is-active dormouse-agent`)
  await expectKept()
  for (const id of Object.values(ids)) await on('cp-1', `dormouse destroy ${id}`)
  const purged = await on('host-2', 'apt-get purge -y dormouse-agent; ls /var/lib')
  expect(purged).toContain("Deleting /var/lib/dormouse-agent, with this host's identity")
  expect(purged).not.toMatch(/^dormouse-(agent|disks)$/m)
  expect(await on('cp-1', 'apt-get purge -y dormouse-control-plane; ! ls /etc/dormouse')).toContain(
    'The database stays as it is.',
  )
})
