// Which release a program is of, and which commit it was built from.
import about from '../package.json' with { type: 'json' }

/** The build puts the commit here. A program that runs from its sources has none. */
declare const DORMOUSE_COMMIT: string | undefined

export const release = {
  version: about.version,
  commit: typeof DORMOUSE_COMMIT === 'undefined' ? 'sources' : DORMOUSE_COMMIT,
}
