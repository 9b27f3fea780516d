// Whether this machine can run guests on its own processor. Knows nothing of libvirt.

import { closeSync, constants, openSync, readFileSync } from 'node:fs'

/** The device may be there and be of no use: only processor and device together tell. */
export function kvmWorks({ cpuInfo = '/proc/cpuinfo', device = '/dev/kvm' } = {}): boolean {
  return /^flags\s*:.*\b(vmx|svm)\b/m.test(readFileSync(cpuInfo, 'utf8')) && opens(device)
}

function opens(device: string): boolean {
  try {
    closeSync(openSync(device, constants.O_RDWR))
    return true
  } catch {
    return false // whatever the reason, it means the same to the caller
  }
}
