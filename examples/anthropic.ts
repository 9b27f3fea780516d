// A model of Anthropic's works on a desktop: npx node examples/anthropic.ts 'Open the browser and look up …'
import { type AnthropicAction, Desktop, DormouseError, fromAnthropic } from '@dormouse/client'

const { ANTHROPIC_API_KEY = '', ANTHROPIC_BASE_URL = 'https://api.anthropic.com' } = process.env
const task = process.argv[2] ?? 'Open the terminal and find out which kernel runs.'
const space = { width: 1280, height: 800 } // the pictures that the model sees

type Block = { type: 'text'; text: string } | { type: 'tool_use'; id: string; input: AnthropicAction }

async function ask(messages: unknown[]): Promise<Block[]> {
  const computer = { type: 'computer_20251124', name: 'computer' }
  const response = await fetch(`${ANTHROPIC_BASE_URL}/v1/messages`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-api-key': ANTHROPIC_API_KEY,
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'computer-use-2025-11-24',
    },
    body: JSON.stringify({
      model: process.env.ANTHROPIC_MODEL ?? 'claude-sonnet-5',
      max_tokens: 4096,
      tools: [{ ...computer, display_width_px: space.width, display_height_px: space.height, enable_zoom: true }],
      messages,
    }),
  })
  if (!response.ok) throw new Error(`the model answered ${response.status}: ${await response.text()}`)
  return ((await response.json()) as { content: Block[] }).content
}

const desktop = await Desktop.create({ tier: 'default', imageVersion: 'desktop' })

/** What an action did, as the model reads it: a picture of the settled screen, or what is wrong with the action. */
async function perform(input: AnthropicAction) {
  const changes = !['screenshot', 'zoom', 'cursor_position', 'wait'].includes(input.action)
  try {
    const batch = fromAnthropic(input)
    const picture = { fit: 1280, ...batch.screenshot }
    const { screenshot, pointer } = await desktop.input(batch, { space, settle: changes, screenshot: picture })
    if (input.action === 'cursor_position') return { content: `x=${pointer?.x ?? 0}, y=${pointer?.y ?? 0}` }
    const source = { type: 'base64', media_type: screenshot?.mimeType, data: screenshot?.data }
    return { content: [{ type: 'image', source }] }
  } catch (error) {
    if (error instanceof DormouseError || error instanceof TypeError) return { content: error.message, is_error: true }
    throw error
  }
}

await desktop.wake()
const messages: unknown[] = [{ role: 'user', content: task }]
for (;;) {
  const content = await ask(messages)
  messages.push({ role: 'assistant', content })
  for (const block of content) if (block.type === 'text') console.log(block.text)
  const calls = content.filter((block) => block.type === 'tool_use')
  if (calls.length === 0) break
  const results: unknown[] = []
  for (const { id, input } of calls) results.push({ type: 'tool_result', tool_use_id: id, ...(await perform(input)) })
  messages.push({ role: 'user', content: results })
}
await desktop.hibernate() // it goes on from here tomorrow
