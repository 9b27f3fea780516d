// What every process needs: configuration, log, start and close, failpoints. Knows no process.

export { ConfigError, describeConfig, readConfig, type SettingRow, setting } from './config.ts'
export { ArmedFailpoints, FailpointError, type Failpoints, failpointsFrom, noFailpoints } from './failpoints.ts'
export { Lifetime, type ProcessOptions, runProcess } from './lifetime.ts'
export { createLog, type Log, type LogOptions, scrub } from './log.ts'
