// Bodies as the service sends them, for tests.
import type { DesktopJson, OperationJson } from '@dormouse/contract'

export const desktopId = '019a9f00-0000-7000-8000-000000000001'
export const operationId = '019a9f00-0000-7000-8000-0000000000aa'
const time = '2026-01-02T03:04:05.678Z'

/** A desktop that was never booted, unless overridden. */
export function desktop(changes: Partial<DesktopJson> = {}): DesktopJson {
  return {
    id: desktopId,
    org_id: '019a9f00-0000-7000-8000-0000000000ff',
    tier: 'small',
    disk_gib: 10,
    next_tier: null,
    next_disk_gib: null,
    state: 'created',
    resolved_image_version: null,
    image_version: 'mini-1',
    generation: 0,
    current_generation_id: null,
    idle_timeout_secs: 0,
    idle_policy: ['command', 'transfer', 'screen', 'input'],
    billing_mode: 'hourly',
    host_id: null,
    failure: null,
    name: null,
    labels: {},
    wake_on: [],
    destroy_at: null,
    schedule: null,
    protection: 'none',
    protected_at: null,
    created_at: time,
    updated_at: time,
    ...changes,
  }
}

/** A wake just accepted, unless overridden. */
export function operation(changes: Partial<OperationJson> = {}): OperationJson {
  return {
    id: operationId,
    desktop_id: desktopId,
    kind: 'wake',
    requested_by: 'caller',
    state: 'pending',
    result: null,
    error: null,
    error_code: null,
    progress: null,
    created_at: time,
    updated_at: time,
    settled_at: null,
    ...changes,
  }
}

/** The same wake, done. */
export function succeeded(changes: Partial<OperationJson> = {}): OperationJson {
  return operation({
    state: 'succeeded',
    settled_at: time,
    result: {
      desktop_state: 'awake',
      generation: 1,
      generation_id: '019a9f00-0000-7000-8000-0000000000bb',
      host_id: '019a9f00-0000-7000-8000-0000000000cc',
      duration_ms: 1234,
      resumed_from: 'memory',
    },
    ...changes,
  })
}
