// The script that brings our program and our SSH key into a guest through its guest agent: pure text, and the parsing of what it
// prints.
import { gzipSync } from 'node:zlib'
import { refuse } from '@dormouse/contract'
import { AgentRefused } from '../driver/guest-access.ts'
import type { GuestAgent } from '../driver/guest-transport.ts'
import { keyExchangeSecs } from './limits.ts'
import { quote } from './quote.ts'
import { programIn, supervisorPlaces } from './supervisor.ts'
import { supervisorProgram } from './supervisor-program.ts'

export const hostKeyPath = '/etc/ssh/ssh_host_ed25519_key'
export const authorizedKeysPath = '/etc/dormouse/authorized_keys'

/** 51 bytes: the name ssh-ed25519 and a key, each with its length. */
const hostKeyForm = /^ssh-ed25519 ([A-Za-z0-9+/]{68})(?: |$)/m

/** Half of the program's size, for the guest agent takes only so much at once. */
export const packedProgram = gzipSync(supervisorProgram, { level: 9 })

/** Puts the program into the first place that can have it and run it: `$program`. It comes packed on standard input. */
const placeProgram = `mkdir -p /run/dormouse /etc/dormouse 2>/dev/null
new=/run/dormouse/program.new program=
gzip -dc >$new || no space
${supervisorPlaces
  .map(
    (place) => `if [ -z "$program" ]; then
  file=${programIn(place)}
  [ -x $file ] || { mkdir -p ${place} && cp $new $file.new && chmod 700 $file.new && mv -f $file.new $file; } 2>/dev/null
  [ "$($file ${place}/execs check 2>/dev/null)" = ready ] && program=$file || rm -f $file
fi`,
  )
  .join('\n')}
rm -f $new
[ "$program" ] || no program`

/** If the disk is read-only, the key is stored in memory, until the next boot. */
const placeKey = (key: string) =>
  `put() { printf '%s\\n' ${key} >"$1/authorized_keys.new" && mv -f "$1/authorized_keys.new" "$1/authorized_keys"; }
put /etc/dormouse 2>/dev/null || put /run/dormouse || no space`

/**
 * For the host's port alone: a server that the image runs on its network keeps its own. Debian's bash runs root's .bashrc for each
 * command that seems to come over the network, unless SHLVL says it is nested.
 */
const placeConfig = `cat >/run/dormouse/sshd_config.new <<'END'
HostKey ${hostKeyPath}
AuthorizedKeysFile ${authorizedKeysPath} /run/dormouse/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
MaxSessions 100
LoginGraceTime 30
ClientAliveInterval 15
ClientAliveCountMax 3
SetEnv SHLVL=1
PrintMotd no
PrintLastLog no
PidFile none
END
mv -f /run/dormouse/sshd_config.new /run/dormouse/sshd_config || no space`

/** The distribution makes it at the first boot. */
const printHostKey = `n=0
until [ -s ${hostKeyPath}.pub ]; do
  n=$((n + 1))
  [ $n -ne 80 ] || ssh-keygen -q -t ed25519 -N '' -f ${hostKeyPath} </dev/null >/dev/null 2>&1
  [ $n -le 100 ] || no key
  sleep 0.1
done
cat ${hostKeyPath}.pub`

/**
 * A program that serves a port already stays: the new one ends at once. It must outlive the guest agent's service. What an earlier
 * boot has left unfinished is removed.
 */
const startProgram = `for what in 'port ssh' 'port wake' 'stream - sweep'; do $program $what </dev/null >/dev/null 2>&1 & done`

const prologue = `PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 077
no() { echo "no $1"; exit 0; }
`

/** The kernel's line of a killed process is an error, which images print only if they boot at this level. */
const printErrors = `read -r level _ </proc/sys/kernel/printk && [ "$level" -ge 4 ] || echo 4 2>/dev/null >/proc/sys/kernel/printk`

export const bringInScript = (publicKey: string | undefined): string => `# bring in the program
${prologue}command -v sshd >/dev/null || no sshd
${placeProgram}
${placeConfig}
${publicKey ? placeKey(quote(publicKey.trim())) : ''}
${startProgram}
${printErrors}
${publicKey ? printHostKey : ''}
`

const lacks: Record<string, string> = {
  sshd: 'the image has no sshd',
  program: 'the guest has no writable folder that runs programs, or another processor than x86-64',
}

/**
 * Brings our program and public key into a guest, and returns its SSH host key. Without a key, only the program. Refuses with
 * `image_unsuited` if the guest cannot have them.
 */
export async function bringIn(agent: Pick<GuestAgent, 'run'>, publicKey?: string): Promise<string> {
  const [, hostKey = ''] = hostKeyForm.exec(await placeIn(agent, bringInScript(publicKey))) ?? []
  if (publicKey && !hostKey) refuseUnexchanged()
  return hostKey
}

/** Brings in the program alone, for a guest that is reached without SSH and ports. */
export async function bringInAlone(agent: Pick<GuestAgent, 'run'>): Promise<void> {
  await placeIn(agent, `${prologue}${placeProgram}`)
}

/** What the script printed; it gets the program as its input. */
async function placeIn(agent: Pick<GuestAgent, 'run'>, script: string): Promise<string> {
  const { exitCode, stdout } = await agent.run(script, keyExchangeSecs, packedProgram).catch(refuseDisabled)
  const printed = stdout.toString('latin1')
  const lacking = lacks[/^no (\w+)$/m.exec(printed)?.[1] ?? '']
  if (lacking) refuse('image_unsuited', lacking)
  if (exitCode !== 0) refuseUnexchanged()
  return printed
}

const refuseUnexchanged = () => refuse('guest_unavailable', 'the guest could not exchange SSH keys with this host')

/** Some distributions disable it. */
function refuseDisabled(error: Error): never {
  if (error.cause instanceof AgentRefused && /disabled|not found/.test(error.cause.message))
    refuse('image_unsuited', 'the image’s guest agent does not run programs: guest-exec is disabled')
  throw error
}
