// Started inside a host's network: listens on a port there, and hands each connection to the process that started it.
import { createServer } from 'node:net'

const server = createServer({ pauseOnConnect: true }, (socket) => process.send?.('joined', socket))
server.listen(Number(process.argv[2]), '127.0.0.1', () => process.send?.('ready'))
process.on('disconnect', () => process.exit(0))
process.on('SIGTERM', () => process.exit(0))
