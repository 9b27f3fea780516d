// The SDK's public API.
export type {
  ActivityClass,
  AdminEventJson,
  AdminOperationJson,
  AuditEntryJson,
  BulkBody,
  BulkDesktopJson,
  BulkJson,
  ChangeDesktopBody,
  ChangedEntryJson,
  ChangeEntryBody,
  ChangeJson,
  ChangesJson,
  ChangeWebhookBody,
  ClipboardBody,
  ClipboardJson,
  ClipboardSetJson,
  CopyJson,
  CopyPolicyBody,
  CopyPolicyJson,
  CreateApiKeyBody,
  CreateDesktopBody,
  CreatedFileUrlJson,
  CreatedKeyJson,
  CreatedOperatorKeyJson,
  CreatedOwnKeyJson,
  CreatedWebhookJson,
  CreateFileUrlBody,
  CreateWebhookBody,
  DeliveryAttemptJson,
  DeliveryJson,
  DesktopJson,
  DesktopState,
  DrainBody,
  DrainDesktopJson,
  DrainJson,
  EntriesJson,
  EntryJson,
  EventJson,
  ExecBody,
  ExecJson,
  ExecStateJson,
  ExecStream,
  FileUrlJson,
  HibernateBody,
  HostJson,
  IdleJson,
  ImageJson,
  InputBody,
  InputJson,
  InviteJson,
  KeyJson,
  LastMetricsJson,
  ListedInviteJson,
  MetricsGapJson,
  MetricsJson,
  MetricsPointJson,
  OfferedImageJson,
  OfferedImagesJson,
  OperationJson,
  OperationKind,
  OperatorKeyJson,
  OrgJson,
  OrgQuotasJson,
  OwnKeyJson,
  OwnQuotasJson,
  ProblemJson,
  QuotaJson,
  RemovalJson,
  ReplicaJson,
  RequestKind,
  Right,
  ScheduleBody,
  ScheduleJson,
  ScreenJson,
  SetQuotaBody,
  Shares,
  StartExecBody,
  StreamBody,
  StreamClaim,
  StreamJson,
  TierJson,
  TiersJson,
  TrustedHostJson,
  UpgradeBody,
  UpgradeJson,
  UpgradePlanJson,
  UploadJson,
  UsageJson,
  UseClass,
  WakeBody,
  WakeLockBody,
  WakeLockJson,
  WakeWish,
  WebhookEvent,
  WebhookJson,
  WokeJson,
} from '@dormouse/contract'
export {
  type AnthropicAction,
  fromAnthropic,
  fromOpenAI,
  type InputAction,
  type InputBatch,
  type OpenAIAction,
} from './adapters.ts'
export {
  type AdminClient,
  type AdminClientOptions,
  type AuditPage,
  type AuditQuery,
  createAdminClient,
} from './admin.ts'
export type { FileData, FilePart, ReadFormat } from './bodies.ts'
export type { BulkWaitOptions } from './bulk.ts'
export {
  type Client,
  type ClientOptions,
  createClient,
  type DesktopPage,
  type DesktopQuery,
  type EntriesQuery,
  type MetricsQuery,
  type MutationOptions,
  newIdempotencyKey,
  type PartOptions,
} from './client.ts'
export {
  type ChangeOptions,
  type Connection,
  type CreateOptions,
  Desktop,
  type Idle,
  type LockOptions,
  type Metrics,
  type Operation,
  type Screen,
  type TransitionOptions,
  type WakeLock,
  type WakeOptions,
} from './desktop.ts'
export * from './errors.ts'
export type { AdminEventsOptions, EventPageOptions, EventsOptions } from './events.ts'
export { type ConnectExecOptions, Exec, type ExecEnd, type ExecState, type StartOptions } from './exec.ts'
export type { ExecOutput, FollowExecOptions } from './exec-output.ts'
export type { ReadExecOptions } from './execs.ts'
export type { CommandResult, Entry, FileChange, FileUrl, FileUrlOptions, RunOptions } from './guest.ts'
export type { CallOptions, HttpOptions, KeyedOptions, Woken } from './http.ts'
export type { InputOptions, InputResult } from './input.ts'
export { idOfDesktop } from './naming.ts'
export type { SettleOptions, WaitOptions } from './operations.ts'
export { type Resolution, setResolution } from './resolution.ts'
export type { Clock } from './retry.ts'
export type { RunBody, RunIo, RunJson } from './run.ts'
export { type Schedule, scheduleTimeFrom } from './schedules.ts'
export type { LaunchOptions, WriteOptions } from './screen-helpers.ts'
export type { Screenshot, ScreenshotQuery } from './screenshots.ts'
export type { AttachOptions, Terminal, TerminalSize } from './terminal.ts'
export { type Piece, typeInPieces } from './typing.ts'
export type { UploadData, UploadOptions } from './uploads.ts'
export type { WatchOptions, WatchQuery } from './watches.ts'
export {
  type DeliveryPage,
  type DeliveryQuery,
  type VerifyOptions,
  verifyWebhook,
  WebhookVerificationError,
} from './webhooks.ts'
