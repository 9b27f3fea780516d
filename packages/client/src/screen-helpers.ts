// E2B's names for what `desktop.input` does, and programs that show on the screen. A program written for E2B's desktops needs few
// changes. What is pressed is released at the end of each call: hold a button with a batch.
import type { InputAction, InputBatch } from './adapters.ts'
import { type CallOptions, callNames } from './http.ts'
import type { InputOptions, InputResult } from './input.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { shown } from './shown.ts'
import { typeInPieces } from './typing.ts'

type Place = readonly [x: number, y: number]

export interface WriteOptions extends InputOptions {
  /** Between two events; the same as `paceMs`. */
  delayInMs?: number
  /** The keys that paste what is on no key; `Control`, `v` by default. Terminals have others. */
  paste?: readonly string[]
}

export interface LaunchOptions extends CallOptions {
  /** Whose screen it is; `user` by default. */
  user?: string
  /** `:0` by default. */
  display?: string
}

const launchNames: NamesOf<LaunchOptions> = { ...callNames, user: true, display: true }

export abstract class ScreenHelpers {
  abstract input(actions: readonly InputAction[] | InputBatch, options?: InputOptions): Promise<InputResult>
  abstract screen(
    options?: CallOptions,
  ): Promise<{ width: number; height: number; pointer: { x: number; y: number } | null }>
  abstract readonly commands: {
    run(command: string[], options?: { signal?: AbortSignal }): Promise<{ exitCode: number | null; stderr: string }>
  }

  leftClick(x?: number, y?: number, options?: InputOptions): Promise<InputResult> {
    return this.#click('left', 1, x, y, options)
  }
  rightClick(x?: number, y?: number, options?: InputOptions): Promise<InputResult> {
    return this.#click('right', 1, x, y, options)
  }
  middleClick(x?: number, y?: number, options?: InputOptions): Promise<InputResult> {
    return this.#click('middle', 1, x, y, options)
  }
  doubleClick(x?: number, y?: number, options?: InputOptions): Promise<InputResult> {
    return this.#click('left', 2, x, y, options)
  }

  moveMouse(x: number, y: number, options?: InputOptions): Promise<InputResult> {
    return this.input([{ type: 'move', x, y }], options)
  }

  drag([x, y]: Place, [toX, toY]: Place, options?: InputOptions): Promise<InputResult> {
    const path = [
      { x, y },
      { x: toX, y: toY },
    ]
    return this.input([{ type: 'drag', path }], options)
  }

  /** Ticks of the wheel. */
  scroll(direction: 'up' | 'down' = 'down', amount = 1, options?: InputOptions): Promise<InputResult> {
    return this.input([{ type: 'scroll', dy: direction === 'up' ? -amount : amount }], options)
  }

  /** One key, or several that are pressed together. */
  press(keys: string | readonly string[], options?: InputOptions): Promise<InputResult> {
    return this.input([{ type: 'key', keys: [keys].flat() }], options)
  }

  /** Types a text of any length, in several batches if it is long. Stops at the first that is not `done`, and returns that. */
  async write(text: string, { delayInMs, paste, ...options }: WriteOptions = {}): Promise<InputResult> {
    const paceMs = options.paceMs ?? delayInMs
    return typeInPieces(text, paceMs, ({ text: piece, offset, isLast }) => {
      // A key names one batch. What comes after the text comes after its last piece.
      const { settle, screenshot, idempotencyKey, ...rest } = options
      return this.input([{ type: 'type', text: piece, paste: paste && [...paste] }], {
        ...{ ...rest, paceMs },
        ...(isLast && { settle, screenshot }),
        ...(idempotencyKey !== undefined && {
          idempotencyKey: offset === 0 ? idempotencyKey : `${idempotencyKey} ${offset}`,
        }),
      })
    })
  }

  async wait(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms))
  }

  /** Where input has put the pointer; null if none did. */
  async getCursorPosition(options?: CallOptions): Promise<{ x: number; y: number } | null> {
    return (await this.screen(options)).pointer
  }

  async getScreenSize(options?: CallOptions): Promise<{ width: number; height: number }> {
    const { width, height } = await this.screen(options)
    return { width, height }
  }

  /** Starts a program on the screen, with arguments as they are; it goes on by itself. Throws if it cannot be started. */
  launch(program: string | readonly string[], options?: LaunchOptions): Promise<void> {
    return this.#show([program].flat(), options)
  }

  /** Opens a file or a URL with the program that the desktop has for it. */
  open(fileOrUrl: string, options?: LaunchOptions): Promise<void> {
    // A name that begins with a hyphen is no option.
    return this.#show(['xdg-open', fileOrUrl.startsWith('-') ? `./${fileOrUrl}` : fileOrUrl], options)
  }

  async #show(words: readonly string[], options: LaunchOptions = {}): Promise<void> {
    refuseUnknown('launch', options, launchNames)
    const { user, display, signal } = options
    const { exitCode, stderr } = await this.commands.run(shown(words, { user, display }), { signal })
    if (exitCode !== 0) throw new Error(stderr.trim() || `${words[0]} could not be started; check its name`)
  }

  #click(
    button: 'left' | 'right' | 'middle',
    count: number,
    x: number | undefined,
    y: number | undefined,
    options?: InputOptions,
  ): Promise<InputResult> {
    return this.input([{ type: 'click', button, count, x, y }], options)
  }
}
