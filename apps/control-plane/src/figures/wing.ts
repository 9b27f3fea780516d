// The wing of what desktops use: what it brings to the rest of the control plane.
import type { App } from '../http/app.ts'
import { figureRoutes } from './routes.ts'
import { Figures, type FiguresOptions } from './service.ts'

export function openFigures(options: FiguresOptions) {
  const figures = new Figures(options)
  return {
    customerRoutes: (scope: App) => figureRoutes(scope, { figures }),
    lastMetrics: figures.last.bind(figures),
  }
}
