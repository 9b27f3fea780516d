// Versions of libvirt and QEMU, as they report them.

/** Whether the version `a` comes before `b`; `9.0.0` comes before `9.1.0`. */
export function isOlder(a: string, b: string): boolean {
  const [mine, theirs] = [numbersOf(a), numbersOf(b)]
  const at = mine.findIndex((number, index) => number !== (theirs[index] ?? 0))
  return at >= 0 && mine[at]! < (theirs[at] ?? 0)
}

const numbersOf = (version: string): number[] => version.split('.').map((part) => Number.parseInt(part, 10) || 0)
