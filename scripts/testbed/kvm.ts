// Whether KVM works on this machine. Knows no libvirt.

import { closeSync, constants, openSync, readFileSync } from 'node:fs'

/** The device may exist without being usable: both the processor's flags and the device must be there. */
export function kvmWorks({ cpuInfo = '/proc/cpuinfo', device = '/dev/kvm' } = {}): boolean {
  return /^flags\s*:.*\b(vmx|svm)\b/m.test(readFileSync(cpuInfo, 'utf8')) && opens(device)
}

function opens(device: string): boolean {
  try {
    closeSync(openSync(device, constants.O_RDWR))
    return true
  } catch {
    return false // the reason makes no difference to the caller
  }
}
