// One tool: what an agent reads about it, and what it does. Knows no protocol.
import type { Client } from '@dormouse/client'
import type { z } from 'zod'
import type { Grant } from './grants.ts'
import type { Prepare } from './schemas.ts'

/** What a tool returns: text for a model, the same as data for a program, and pictures behind it. */
export interface Answer<Data = object> {
  text: string
  data: Data
  pictures?: { mimeType: string; data: Uint8Array }[]
}

export interface Call {
  client: Client
  /** Aborted when the agent cancels the call. */
  signal: AbortSignal
}

export interface Tool<Shape extends z.ZodRawShape = z.ZodRawShape, Output extends z.ZodRawShape = z.ZodRawShape> {
  name: string
  title: string
  description: string
  grant: Grant
  /** The right that its calls need, where it is another one than the grant. */
  needs?: Grant
  /** In addition to `desktop_id`, if the tool works on one desktop. */
  input: Shape
  /** Turns what models write into what `input` requires. */
  prepare?: Prepare
  /** The shape of `data`. What is not known is left out. */
  output: Output
  /** Whether it works on one desktop: it takes `desktop_id` then. */
  onDesktop: boolean
  /** Whether it needs the desktop awake: it takes `wake` then. */
  needsAwake?: boolean
  /** Whether a repeat with the same arguments changes nothing more. */
  idempotent: boolean
  run(
    args: z.infer<z.ZodObject<Shape>> & { desktop_id: string },
    call: Call,
  ): Promise<Answer<z.infer<z.ZodObject<Output>>>>
}

/** Checks a tool's types, and drops them, as all tools are in one list. */
export const tool = <Shape extends z.ZodRawShape, Output extends z.ZodRawShape>(
  definition: Tool<Shape, Output>,
): Tool => definition as unknown as Tool
