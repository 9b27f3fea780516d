// One tool: what an agent reads about it, and what it does. Knows no protocol.
import type { Client } from '@dormouse/client'
import type { z } from 'zod'
import type { Grant } from './grants.ts'

/** What a tool answers: text, and pictures behind it. */
export interface Answer {
  text: string
  pictures?: { mimeType: string; data: Uint8Array }[]
}

export interface Call {
  client: Client
  /** Aborted when the agent cancels the call. */
  signal: AbortSignal
}

export interface Tool<Shape extends z.ZodRawShape = z.ZodRawShape> {
  name: string
  title: string
  description: string
  grant: Grant
  /** Beside `desktop_id`, where the tool works on one desktop. */
  input: Shape
  /** Whether it works on one desktop: it takes `desktop_id` then. */
  onDesktop: boolean
  /** Whether a repeat with the same arguments changes nothing more. */
  idempotent: boolean
  run(args: z.infer<z.ZodObject<Shape>> & { desktop_id: string }, call: Call): Promise<Answer>
}

/** Checks a tool's types, and forgets them: tools stand in one list. */
export const tool = <Shape extends z.ZodRawShape>(definition: Tool<Shape>): Tool => definition as unknown as Tool
