// Runs a program under the address families that its unit allows, as systemd does: by a filter of system calls.
import { readFileSync } from 'node:fs'

const families: Readonly<Record<string, number>> = { AF_UNIX: 1, AF_INET: 2, AF_INET6: 10, AF_NETLINK: 16 }
/** The number of the system call `socket`, and the kernel's name of the processor. */
const machines: Readonly<Record<string, [socket: number, audit: number, prctl: number]>> = {
  x64: [41, 0xc000003e, 157],
  arm64: [198, 0xc00000b7, 167],
}

/** Perl is on every Debian. Each instruction of the filter: code, jumps, value. */
const script = `use strict;
my ($socket, $audit, $prctl, $allowed, @command) = @ARGV;
my @families = split /,/, $allowed;
my $to_end = @families + 1;
my @filter = ([0x20, 0, 0, 4], [0x15, 0, $to_end + 3, $audit], [0x20, 0, 0, 0], [0x15, 0, $to_end + 1, $socket], [0x20, 0, 0, 16]);
push @filter, [0x15, @families - $_, 0, $families[$_]] for 0 .. $#families;
push @filter, [0x06, 0, 0, 0x50000 | 97], [0x06, 0, 0, 0x7fff0000];
my $code = join '', map { pack 'SCCL', @$_ } @filter;
my $program = pack('S x6', scalar @filter) . pack('P', $code);
syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, $program) == 0 or die "no filter: $!";
exec @command or die "$command[0]: $!";`

/** The words that run `command` so. */
export function underUnit(unit: string, command: string[]): string[] {
  const [, allowed = ''] = /^RestrictAddressFamilies=(.*)$/m.exec(readFileSync(unit, 'utf8')) ?? []
  return withFamilies(allowed.split(' '), command)
}

function withFamilies(names: string[], command: string[]): string[] {
  const machine = machines[process.arch]
  if (!machine) throw new Error(`the numbers of system calls on ${process.arch} are not known here`)
  const numbers = names.map((name) => families[name]!)
  return ['perl', '-e', script, ...machine.map(String), numbers.join(','), ...command]
}
