// The shell script that exchanges SSH keys between a guest and its host: pure text, and the parsing of what it prints.
import { quote } from './quote.ts'

/** The SSH server that gets our key: ours on the port, or the one that the image has on its network. */
export type SshServer = 'port' | 'network'

export const hostKeyPath = '/etc/ssh/ssh_host_ed25519_key'
export const authorizedKeysPath = '/etc/dormouse/authorized_keys'

/** 51 bytes: the name ssh-ed25519 and a key, each with its length. */
const hostKeyForm = /^[A-Za-z0-9+/]{68}$/

/** If the disk is read-only, the key is stored in memory, until the next boot. */
const addToPortServer = (
  key: string,
) => `put() { mkdir -p "$1" && printf '%s\\n' ${key} >"$1/authorized_keys.new" && mv -f "$1/authorized_keys.new" "$1/authorized_keys"; }
put /etc/dormouse 2>/dev/null || put /run/dormouse || exit 1`

/** Replaces an earlier key of ours. The other keys belong to the guest's owner and stay. */
const addToRoot = (key: string) => `d=~root/.ssh; mkdir -p "$d" || exit 1
{ grep -v ' dormouse$' "$d/authorized_keys" 2>/dev/null; printf '%s\\n' ${key}; } >"$d/authorized_keys.new" && mv -f "$d/authorized_keys.new" "$d/authorized_keys" || exit 1`

/** Adds our public key to the server's keys, and prints the guest's host key. */
export const exchangeScript = (publicKey: string, server: SshServer): string => `umask 077
${(server === 'port' ? addToPortServer : addToRoot)(quote(publicKey.trim()))}
n=0
until [ -s ${hostKeyPath}.pub ]; do n=$((n + 1)); [ $n -le 80 ] || exit 1; sleep 0.1; done
cat ${hostKeyPath}.pub
`

/** The host key in what the script printed; undefined if that is something else. */
export function parseHostKey(printed: string): string | undefined {
  const [type, hostKey = ''] = printed.trim().split(' ')
  return type === 'ssh-ed25519' && hostKeyForm.test(hostKey) ? hostKey : undefined
}
