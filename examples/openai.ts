// A model of OpenAI's works on a desktop: npx node examples/openai.ts 'Open the browser and look up …'
import { Desktop, fromOpenAI, type OpenAIAction } from '@dormouse/client'

const { OPENAI_API_KEY = '', OPENAI_BASE_URL = 'https://api.openai.com/v1' } = process.env
const task = process.argv[2] ?? 'Open the terminal and find out which kernel runs.'
const space = { width: 1280, height: 800 } // the pictures that the model sees

type Item =
  | { type: 'message'; content: { text?: string }[] }
  | { type: 'computer_call'; call_id: string; actions: OpenAIAction[] }

async function ask(input: unknown, previous?: string): Promise<{ id: string; output: Item[] }> {
  const response = await fetch(`${OPENAI_BASE_URL}/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${OPENAI_API_KEY}` },
    body: JSON.stringify({
      model: process.env.OPENAI_MODEL ?? 'gpt-5.4',
      tools: [{ type: 'computer' }],
      truncation: 'auto',
      previous_response_id: previous,
      input,
    }),
  })
  if (!response.ok) throw new Error(`the model answered ${response.status}: ${await response.text()}`)
  return (await response.json()) as { id: string; output: Item[] }
}

const desktop = await Desktop.create({ tier: 'default', imageVersion: 'desktop' })
await desktop.wake()

let { id, output } = await ask(task)
for (;;) {
  for (const item of output) if (item.type === 'message') console.log(item.content.map(({ text }) => text).join(''))
  const calls = output.filter((item) => item.type === 'computer_call')
  if (calls.length === 0) break
  const results: unknown[] = []
  for (const { call_id, actions } of calls) {
    const changes = actions.some(({ type }) => !['screenshot', 'wait'].includes(type))
    const { screenshot } = await desktop.input(fromOpenAI(actions), {
      space,
      settle: changes,
      screenshot: { fit: 1280 },
    })
    const image_url = `data:${screenshot?.mimeType};base64,${screenshot?.data}`
    results.push({ type: 'computer_call_output', call_id, output: { type: 'computer_screenshot', image_url } })
  }
  ;({ id, output } = await ask(results, id))
}
await desktop.hibernate() // it goes on from here tomorrow
