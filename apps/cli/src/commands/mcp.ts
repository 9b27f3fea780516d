// mcp: desktops as tools for an agent, over standard input and output.
import { defaultGrants, type Grant, grants, parseGrants } from '@dormouse/mcp/grants'
import { type Command, InvalidArgumentError } from 'commander'
import type { Context } from '../context.ts'

interface McpCliOptions {
  desktop?: string
  grants: Grant[]
}

const example = `
Example, in an agent's settings:
  {"mcpServers": {"dormouse": {"command": "npx", "args": ["dormouse", "mcp"]}}}

Grants:
  see      list desktops, look at screens, read and list files
  use      run commands, write files
  power    wake and hibernate
  create   create desktops
  destroy  destroy desktops`

/** Adds the command. */
export function addMcp(program: Command, context: Context): void {
  program
    .command('mcp')
    .description('serve desktops as tools to an agent, over the Model Context Protocol on standard input and output')
    .option('--desktop <id>', 'the only desktop that the agent can use')
    .option('--grants <list>', `what the agent may do: some of ${grants.join(', ')}`, grantsFrom, [...defaultGrants])
    .addHelpText('after', example)
    .action((options: McpCliOptions) => serve(context, options))
}

function grantsFrom(text: string): Grant[] {
  try {
    return parseGrants(text)
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message)
  }
}

/** Ends with standard input, or at Ctrl-C. */
async function serve({ customer: clientFor, terminal }: Context, { desktop, grants }: McpCliOptions): Promise<void> {
  // An agent without a service, or that names a wrong desktop, learns it here, not with each call.
  const client = clientFor()
  if (desktop !== undefined) await client.getDesktop(desktop, { signal: terminal.signal })
  // They take longer to load than most commands take to run.
  const { createMcpServer } = await import('@dormouse/mcp')
  const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio')
  const transport = new StdioServerTransport()
  const server = serveStdio(() => createMcpServer({ clientFor, grants, desktopId: desktop }), {
    transport,
    onerror: ({ message }) => terminal.note(`dormouse mcp: ${message}`),
  })
  if (process.stdin.isTTY)
    terminal.note('An agent starts this command and uses its standard input and output. Ctrl-C ends it.')
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  process.stdin.once('close', resolve).once('end', resolve)
  terminal.signal.addEventListener('abort', () => resolve(), { once: true })
  await ended
  await server.close()
}
