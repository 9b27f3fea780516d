// Desktops as tools of the Model Context Protocol. Knows no transport: the CLI serves it over stdio, the control plane over HTTP.
export { createMcpServer, type McpOptions } from './server.ts'
