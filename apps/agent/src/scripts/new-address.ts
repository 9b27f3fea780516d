// The shell script with which a guest requests its address again, after its memory has come from a host that had given it
// another one: pure text. Each distribution has a DHCP client of its own.
import type { GuestAddress } from '../driver/guest-access.ts'
import { quote } from './quote.ts'

/** How long it may take. */
export const newAddressSecs = 30

const firstLine = '# request an address'

export const isNewAddressScript = (command: string | string[]): boolean =>
  typeof command === 'string' && command.startsWith(`${firstLine}\n`)

/**
 * Does nothing if the guest has the address; fails if no device has that hardware address. A device that was plugged in just
 * now may appear a little later.
 */
export const newAddressScript = ({ mac, ip }: GuestAddress): string => `${firstLine}
dev= n=0
while [ -z "$dev" ]; do
  for at in /sys/class/net/*; do
    read -r mac 2>/dev/null <"$at/address" && [ "$mac" = ${quote(mac)} ] && dev=\${at##*/}
  done
  n=$((n + 1))
  [ -n "$dev" ] || { [ $n -le 50 ] && sleep 0.1; } || exit 1
done
ip -4 addr show dev "$dev" | grep -qF ${quote(`inet ${ip}/`)} && exit 0
if networkctl status "$dev" 2>/dev/null | grep -q 'State:.*configur\\|State:.*routable'; then
  networkctl reconfigure "$dev"
elif nmcli -g GENERAL.STATE device show "$dev" 2>/dev/null | grep -q '^100'; then
  nmcli device connect "$dev"
elif command -v dhclient >/dev/null; then
  dhclient -r "$dev"
  dhclient "$dev"
elif command -v udhcpc >/dev/null; then
  ip link set "$dev" up
  script=/usr/lib/dormouse/udhcpc
  [ -x $script ] || script=
  udhcpc -n -q -t 20 -T 1 -i "$dev" \${script:+-s $script}
fi >/dev/null 2>&1
`
