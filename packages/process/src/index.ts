// What every process needs: configuration, log, start and close, failpoints. Knows no process.

export { BoundedBuffer } from './bounded-buffer.ts'
export type { BulkFields } from './bulk-lines.ts'
export { BytePace } from './byte-pace.ts'
export { ConfigError, describeConfig, readConfig, type SettingRow, setting } from './config.ts'
export { ArmedFailpoints, FailpointError, type Failpoints, failpointsFrom, noFailpoints } from './failpoints.ts'
export { Lifetime, type ProcessOptions, runProcess } from './lifetime.ts'
export { bulkLog, createLog, type Log, type LogOptions, onAlarm, scrub } from './log.ts'
export { BadResponse, type RequestOptions, type Response, readBody, request } from './requests.ts'
export type { SpanStart, Tracing } from './spans.ts'
export { together } from './together.ts'
export { openTracing, traced, tracingSettings } from './tracing.ts'
export { currentSpan, outsideWork, type Span, withLogFields, withSpan } from './work-context.ts'
