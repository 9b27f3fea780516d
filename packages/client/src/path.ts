// Builds request paths. URL parsing alone would silently resolve `.` and `..` into other routes.
import { InvalidRequestError } from './errors.ts'

/** A path of literal pieces and encoded values: path`/v1/desktops/${id}/wake`. */
export function path(pieces: TemplateStringsArray, ...values: string[]): string {
  return String.raw({ raw: pieces }, ...values.map(segment))
}

function segment(value: string): string {
  if (value === '' || value === '.' || value === '..')
    throw new InvalidRequestError(`${JSON.stringify(value)} is not an id`)
  return encodeURIComponent(value)
}

/** A guest's path as the files route expects it: encoded, without the leading slash. */
export function guestPath(file: string): string {
  const segments = file.replace(/^\/+/, '').split('/')
  if (segments.includes('..') || ['', '.'].includes(segments.at(-1)!))
    throw new InvalidRequestError(`${JSON.stringify(file)} is not the path of a file; it needs a name and no ".."`)
  if (!file.isWellFormed())
    throw new InvalidRequestError(`${JSON.stringify(file)} contains half of a surrogate pair, which no file name can`)
  return segments.map(encodeURIComponent).join('/')
}

/** A folder's path for the archives' route; the root is empty. */
export const folderPath = (folder: string): string =>
  /^\/*$/.test(folder) ? '' : guestPath(folder.replace(/\/+$/, ''))
