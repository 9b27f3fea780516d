import { desktop, desktopId } from '@dormouse/client/testing/samples'
import { problem } from '@dormouse/client/testing/scripted-server'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, test } from 'vitest'
import { door, pinnedNode, start } from '../testing/process.ts'

test('an agent starts the command, lists desktops, and the command ends with it', async () => {
  const { env } = await start(() => ({ body: { desktops: [desktop({ state: 'awake' })] } }))
  const transport = new StdioClientTransport({
    command: pinnedNode,
    args: [door, 'mcp', '--grants', 'see'],
    env: { ...env, PATH: process.env.PATH! },
    stderr: 'pipe',
  })
  const agent = new Client({ name: 'test', version: '1' })
  let said = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    said += String(chunk)
  })
  await agent.connect(transport)
  const { tools } = await agent.listTools()
  expect(tools.map(({ name }) => name)).toEqual([
    'desktop_list',
    'desktop_images',
    'desktop_metrics',
    'desktop_screen',
    'desktop_output',
    'desktop_read_file',
    'desktop_list_files',
  ])
  const { content } = await agent.callTool({ name: 'desktop_list', arguments: {} })
  expect(content).toEqual([{ type: 'text', text: expect.stringContaining(`${desktopId}  awake`) }])
  await agent.close()
  expect(said).toBe('')
})

test('standard output carries the protocol alone, and its end ends the command', async () => {
  const { dormouse } = await start(() => ({ body: { desktops: [] } }))
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  const stdin = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\nno JSON\n`
  const { code, stdout, stderr } = await dormouse(['mcp'], { stdin })
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { id: 1, result: { serverInfo: { name: 'dormouse' } } }])
  expect(stderr).toBe('')
})

test('a misspelt grant or a wrong desktop ends the command at once', async () => {
  const { dormouse } = await start(() => problem(404, 'not_found', 'no such desktop'))
  const misspelt = await dormouse(['mcp', '--grants', 'see,destory'])
  expect([misspelt.code, misspelt.stderr]).toEqual([2, expect.stringContaining('"destory" is no grant')])
  expect(await dormouse(['mcp', '--desktop', desktopId])).toMatchObject({ code: 3, stdout: '' })
})
