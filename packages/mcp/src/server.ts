// An MCP server with the tools that were granted. Each connection, or each request over HTTP, has one of its own.
import { type Client, idOfDesktop, type WakeWish } from '@dormouse/client'
import { type CallToolResult, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import about from '../package.json' with { type: 'json' }
import { explain } from './failures.ts'
import { defaultGrants, type Grant } from './grants.ts'
import { schemaOf } from './schemas.ts'
import type { Answer, Tool } from './tool.ts'
import { bulk } from './tools/bulk.ts'
import {
  createDesktop,
  destroyDesktop,
  hibernateDesktop,
  listDesktops,
  listOffers,
  readMetrics,
  wakeDesktop,
} from './tools/desktops.ts'
import { endCommand, listFiles, readFile, readOutput, runCommand, writeFile } from './tools/guest.ts'
import { destroyLater, scheduleDesktop } from './tools/plans.ts'
import { act, seeScreen } from './tools/screen.ts'

export interface McpOptions {
  /** A client whose calls wake a desktop that is asleep, or do not; by default the desktop's `wake_on` decides. */
  clientFor(wake?: WakeWish): Client
  grants?: readonly Grant[]
  /** What the client's credential may do, if that is known. By default everything. */
  rights?: readonly string[] | undefined
  /** The only desktop that the agent may use. Tools then take no `desktop_id`, and it can neither list nor create others. */
  desktopId?: string
}

const tools: readonly Tool[] = [
  listDesktops,
  listOffers,
  createDesktop,
  wakeDesktop,
  hibernateDesktop,
  bulk,
  scheduleDesktop,
  destroyDesktop,
  destroyLater,
  readMetrics,
  seeScreen,
  act,
  runCommand,
  readOutput,
  endCommand,
  readFile,
  writeFile,
  listFiles,
]

const desktopId = z.string().min(1).max(64).describe('Id or name of the desktop, from desktop_list or desktop_create')

const wake = z.boolean().default(false).describe('Wake the desktop first, if it is asleep')

export function createMcpServer({
  clientFor,
  grants = defaultGrants,
  rights,
  desktopId: pinned,
}: McpOptions): McpServer {
  const server = new McpServer(
    { name: 'dormouse', title: 'Dormouse desktops', version: about.version },
    { capabilities: { tools: {} }, instructions: instructionsFor(pinned) },
  )
  const mayWake = grants.includes('power') && (rights?.includes('power') ?? true)
  for (const tool of tools) {
    const isAllowed = rights?.includes(tool.needs ?? tool.grant) ?? true
    if (!isAllowed || !grants.includes(tool.grant) || (pinned !== undefined && !tool.onDesktop)) continue
    const shape = {
      ...(tool.onDesktop && pinned === undefined && { desktop_id: desktopId }),
      ...tool.input,
      ...(tool.needsAwake && mayWake && { wake }),
    }
    const config = {
      title: tool.title,
      description: tool.description,
      // Unknown arguments are refused: a misspelt one would change nothing, silently.
      inputSchema: schemaOf(shape, tool.prepare),
      outputSchema: schemaOf(tool.output),
      annotations: annotationsOf(tool),
    }
    server.registerTool(tool.name, config, async (args, { mcpReq: { signal } }) => {
      const run = async () => {
        const { wake: isWanted, ...rest } = args as { desktop_id: string; wake?: boolean }
        const given = tool.needsAwake ? rest : (args as typeof rest)
        if (pinned !== undefined) given.desktop_id = pinned
        const client = clientFor(mayWake ? (tool.needsAwake && isWanted ? 'allow' : undefined) : 'never')
        if (tool.onDesktop) given.desktop_id = await idOfDesktop(client, given.desktop_id, { signal })
        return tool.run(given, { client, signal })
      }
      return run().then(resultOf, failureOf)
    })
  }
  return server
}

const instructionsFor = (pinned: string | undefined): string =>
  [
    'Desktops are virtual machines that sleep and wake without losing anything.',
    pinned === undefined ? 'Find one with desktop_list, or create one with desktop_create.' : 'You have one desktop.',
    'It must be awake to be used: desktop_wake, or `wake` of the tools. Hibernate it when the work is done.',
  ].join(' ')

const annotationsOf = ({ title, grant, idempotent }: Tool) => ({
  title,
  readOnlyHint: grant === 'see',
  destructiveHint: grant === 'destroy' || grant === 'use',
  idempotentHint: idempotent,
  openWorldHint: grant === 'use',
})

const resultOf = ({ text, data, pictures = [] }: Answer): CallToolResult => ({
  structuredContent: { ...data },
  content: [
    { type: 'text', text },
    ...pictures.map(({ mimeType, data }) => ({
      type: 'image' as const,
      mimeType,
      data: Buffer.from(data).toString('base64'),
    })),
  ],
})

const failureOf = (error: unknown): CallToolResult => ({
  isError: true,
  content: [{ type: 'text', text: explain(error) }],
})
