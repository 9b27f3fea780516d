// Filters a stream of bytes by a script, which decides step by step what passes and what is dropped. Pure: it does not
// matter where the bytes are split. Knows no protocol.

/** What to do with the next bytes. Those of a `peek` are given to the script and not consumed. */
export interface Step {
  act: 'peek' | 'pass' | 'drop'
  bytes: number
}

export type Script<Result = void> = Generator<Step, Result, Buffer>

export const peek = (bytes: number): Step => ({ act: 'peek', bytes })
export const pass = (bytes: number): Step => ({ act: 'pass', bytes })
export const drop = (bytes: number): Step => ({ act: 'drop', bytes })

export class ScriptedFilter {
  readonly #script: Script<never>
  #step: Step
  /** The start of an incomplete `peek`. */
  #kept: Buffer = Buffer.alloc(0)

  constructor(script: Script<never>) {
    this.#script = script
    this.#step = script.next(this.#kept).value
  }

  /** Returns what passes of these bytes and those kept before; throws what the script throws. */
  pass(chunk: Buffer): Buffer {
    const bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    const passed: Buffer[] = []
    let [from, at] = [0, 0]
    while (this.#canGoOn(bytes.length - at)) {
      const { act } = this.#step
      const here = bytes.subarray(at, at + this.#step.bytes)
      if (act === 'drop') {
        passed.push(bytes.subarray(from, at))
        from = at + here.length
      }
      if (act !== 'peek') at += here.length
      this.#goOn(here)
    }
    this.#kept = bytes.subarray(at)
    passed.push(bytes.subarray(from, at))
    return passed.length === 1 ? passed[0]! : Buffer.concat(passed)
  }

  #canGoOn(available: number): boolean {
    const { act, bytes } = this.#step
    return bytes === 0 || (act === 'peek' ? available >= bytes : available > 0)
  }

  #goOn(here: Buffer): void {
    this.#step.bytes -= here.length
    if (this.#step.bytes === 0) this.#step = this.#script.next(here).value
  }
}
