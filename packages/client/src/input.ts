// The body of a batch of input, from camelCase options.
import type { InputBody, InputJson, PictureSpec, Size } from '@dormouse/contract'
import type { InputAction, InputBatch } from './adapters.ts'
import type { Camel } from './camel.ts'
import { callNames, type KeyedOptions } from './http.ts'
import type { NamesOf } from './options.ts'

export type InputResult = Camel<InputJson>

export interface InputOptions extends KeyedOptions {
  /** The coordinates are pixels of a picture of this size; by default of the screen itself. */
  space?: Size
  /** Throws ConflictError (`screen_changed`) if the screen has another size. */
  expectedScreen?: Size
  /** Throws StaleGenerationError if the desktop is on another generation. */
  expectedGeneration?: number
  /** Between two events; 20 by default. */
  paceMs?: number
  /** Waits until the screen has changed, and has then been quiet for `quietMs` (300), at most `maxMs` (5,000). */
  settle?: boolean | { quietMs?: number; maxMs?: number }
  /** Takes a picture at the end; `fit` is its longer side, `format` `png` or `jpeg`. */
  screenshot?: boolean | PictureSpec
  /** Takes the claim from another client. */
  takeover?: boolean
}

export const inputNames: NamesOf<InputOptions> = {
  ...{ ...callNames, idempotencyKey: true, space: true, expectedScreen: true, expectedGeneration: true, paceMs: true },
  ...{ settle: true, screenshot: true, takeover: true },
}

export function inputBodyOf(given: readonly InputAction[] | InputBatch, options: InputOptions): InputBody {
  const { actions, screenshot: asked }: InputBatch = isBatch(given) ? given : { actions: [...given] }
  const { settle, screenshot = asked } = options
  return {
    actions,
    space: options.space,
    expected_screen: options.expectedScreen,
    expected_generation: options.expectedGeneration,
    pace_ms: options.paceMs,
    settle: typeof settle === 'object' ? { quiet_ms: settle.quietMs, max_ms: settle.maxMs } : settle ? {} : undefined,
    screenshot: typeof screenshot === 'object' ? screenshot : screenshot ? {} : undefined,
    takeover: options.takeover,
  }
}

const isBatch = (given: readonly InputAction[] | InputBatch): given is InputBatch => !Array.isArray(given)
