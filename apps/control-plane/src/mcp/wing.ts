// The wing of the Model Context Protocol: what it brings to the rest of the control plane.
import type { App } from '../http/app.ts'
import { type McpParts, mcpRoutes } from './routes.ts'

export interface McpNeeds extends Pick<McpParts, 'readiness'> {
  limits: Pick<McpParts, 'heldBytes'>
}

export const openMcp = ({ readiness, limits }: McpNeeds) => ({
  agentRoutes: (scope: App) => mcpRoutes(scope, { readiness, heldBytes: limits.heldBytes }),
})
