// The hosts' folders of images. Each host has its own, as a real one has, so that none removes an image that another one's
// disks need. Images are built in the first host's folder; the others have links to the same files.
import {
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'

/** Gives a host every image of the source that it lacks. An image that is being made has a hidden name and is left out. */
export function shareImages(source: string, target: string): void {
  mkdirSync(target, { recursive: true })
  const names = readdirSync(source).filter((name) => !name.startsWith('.'))
  const isLink = (name: string) => lstatSync(join(source, name)).isSymbolicLink()
  for (const name of names.filter((name) => !isLink(name) && !existsSync(join(target, name)))) {
    whole(target, name, (work) => {
      mkdirSync(work)
      for (const file of readdirSync(join(source, name))) linkOrCopy(join(source, name, file), join(work, file))
    })
  }
  // The newest version of each image.
  for (const name of names.filter(isLink)) {
    whole(target, name, (work) => symlinkSync(readlinkSync(join(source, name)), work))
  }
}

/** The name appears when everything is there. */
function whole(target: string, name: string, make: (work: string) => void): void {
  const hidden = mkdtempSync(join(target, '.sharing-'))
  try {
    make(join(hidden, name))
    renameSync(join(hidden, name), join(target, name))
  } finally {
    rmSync(hidden, { recursive: true, force: true })
  }
}

function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error
    copyFileSync(from, to)
  }
}
