// Started by shared-ports.ts inside a private host's network: listens on ports there and hands the servers out, then ends.
import { createServer } from 'node:net'

for (const port of process.argv.slice(2).map(Number)) {
  const server = createServer()
  server.on('error', (error) => {
    console.error(`port ${port} inside the private host: ${error.message}`)
    process.exit(1)
  })
  server.listen(port, '127.0.0.1', () => process.send?.(port, server))
}
process.on('disconnect', () => process.exit(0))
