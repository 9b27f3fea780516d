// What the user of the desktop's recipe adds to it, and how that decides about the image's version.

import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** The layouts on which the host can type: those of `apps/agent/src/input/layouts.ts`. */
export const keyboards = ['us', 'gb', 'de', 'de-nodeadkeys'] as const

export const isKeyboard = (name: string): name is (typeof keyboards)[number] => keyboards.some((each) => each === name)

/** What makes an image one's own. */
export interface OwnDesktop {
  /** The image's name. */
  name: string
  /** Packages of the distribution beside those of the recipe. */
  packages: readonly string[]
  /** A folder that is copied over the guest's root; what is under `home/user` is the user's. */
  files?: string | undefined
  /** What the keys type: a layout of XKB. */
  keyboard: (typeof keyboards)[number]
}

/** All of it in texts, for a digest: the same parts give the same image. */
export function ownParts({ packages, files, keyboard }: OwnDesktop): string[] {
  return [keyboard, ...packages.toSorted(), ...(files ? contentsOf(files) : [])]
}

/** Path, mode and contents of every file in a folder, which decide about the image's version. */
function contentsOf(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
  return paths.flatMap((path) => {
    const file = lstatSync(join(folder, path))
    const contents = file.isSymbolicLink()
      ? readlinkSync(join(folder, path))
      : file.isFile()
        ? readFileSync(join(folder, path), 'latin1')
        : ''
    return [path, file.mode.toString(8), contents]
  })
}

/** Xorg's configuration: `de-nodeadkeys` is a layout and a variant of it. */
export function keyboardConf(keyboard: string): string {
  const [layout, variant] = keyboard.split('-')
  const options = [`"XkbLayout" "${layout}"`, ...(variant ? [`"XkbVariant" "${variant}"`] : [])]
  const lines = ['Identifier "keyboard"', 'MatchIsKeyboard "on"', ...options.map((option) => `Option ${option}`)]
  return `Section "InputClass"\n${lines.map((line) => `  ${line}\n`).join('')}EndSection\n`
}
