// A terminal on the screen of a desktop: what is typed into it becomes a file, and what the mouse selects in it can be read.
import type { Desktop } from '@dormouse/client'
import { guest } from '../../real/parts/witness.ts'
import { waitFor } from '../../wait-for.ts'

const folder = '/home/user/.terminal'

/** Each end of the input makes the file `typed` of what came before it. `shown` is on the screen meanwhile. */
const program = `cd ${folder}
tput clear
cat shown
touch begun
while :; do cat > typing; mv typing typed; done`

/** Terminals paste with these keys: Control and V alone are a sign of their own. */
const paste = ['Control', 'Shift', 'v']

export class Terminal {
  readonly #desktop: Desktop

  private constructor(desktop: Desktop) {
    this.#desktop = desktop
  }

  /** Fills the screen, shows this text from the upper left corner on, and has the keyboard. */
  static async open(desktop: Desktop, shown = ''): Promise<Terminal> {
    const terminal = new Terminal(desktop)
    await guest(desktop, `rm -rf ${folder}; install -d -o user -g user ${folder}`)
    await desktop.files.write(`${folder}/shown`, shown)
    await desktop.files.write(`${folder}/program`, program)
    await desktop.launch(['xfce4-terminal', '--fullscreen', '--hide-menubar', '-x', 'sh', `${folder}/program`])
    await waitFor('the terminal to begin', () => terminal.#has('begun'), 120_000)
    await desktop.takeScreenshot({ wait: 'settled', quietMs: 2_000, maxMs: 30_000 })
    return terminal
  }

  /** Types this line by line, in batches that are all done, and returns what has arrived. */
  async type(text: string): Promise<string> {
    await guest(this.#desktop, `rm -f ${folder}/typed`)
    const { outcome, reason } = await this.#desktop.write(`${text}\n`, { paste })
    if (outcome !== 'done') throw new Error(`typing was ${outcome}: ${reason}`)
    await this.#desktop.press(['Control', 'd'])
    await waitFor('the end of what was typed', () => this.#has('typed'))
    return (await this.#desktop.files.read(`${folder}/typed`)).replace(/\n$/, '')
  }

  async close(): Promise<void> {
    await guest(this.#desktop, 'pkill -x xfce4-terminal')
  }

  #has(file: string): Promise<boolean> {
    return this.#desktop.files.read(`${folder}/${file}`).then(
      () => true,
      () => false,
    )
  }
}
