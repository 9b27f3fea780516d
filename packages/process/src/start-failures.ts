// Why a process could not start, as a sentence for its operator: what happened, then what to do. Knows no process.

/** A start that failed for a reason that its operator can remove. The message has what happened, and what to do. */
export class StartError extends Error {
  override readonly name: string = 'StartError'
}

/** The sentence; undefined for an error that only its stack explains. */
export function whyNotStarted(error: unknown, env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (error instanceof StartError) return error.message
  if (!(error instanceof Error)) return undefined
  const { code = '', path, syscall } = error as NodeJS.ErrnoException
  const known = code === 'ENOENT' && syscall === 'mkdir' ? noFolders : files[code]
  const found = path?.startsWith('/') && syscall !== 'connect' ? known : undefined
  if (!found || path === undefined) return undefined
  const names = namesOf(path, env)
  return `cannot use ${path}: ${found.what}; ${found.remedy}${names ? `, or correct ${names}` : ''}`
}

const access = 'let the user that this program runs as read and write it'
const files: Readonly<Record<string, { what: string; remedy: string }>> = {
  ENOENT: { what: 'there is no such file or folder', remedy: 'create it' },
  EACCES: { what: 'permission denied', remedy: access },
  EPERM: { what: 'the operation is not permitted', remedy: access },
  EISDIR: { what: 'it is a folder', remedy: 'put a file in its place' },
  ENOTDIR: { what: 'a part of the path is not a folder', remedy: 'make it one' },
  EEXIST: { what: 'a file is in the place of a folder', remedy: 'move it away' },
  ELOOP: { what: 'its symbolic links form a circle', remedy: 'correct them' },
  ENAMETOOLONG: { what: 'the path is too long', remedy: 'shorten it' },
  EROFS: { what: 'the file system is read-only', remedy: 'mount it writable' },
  ENOSPC: { what: 'no space is left on the file system', remedy: 'free some' },
  EDQUOT: { what: 'the disk quota is exceeded', remedy: 'raise it' },
  EIO: { what: 'an input or output error occurred', remedy: 'check the disk' },
  EMFILE: { what: 'too many files are open', remedy: 'raise the limit of open files (LimitNOFILE in the unit)' },
}

/** The folder above it is there, as /proc is. */
const noFolders = { what: 'its file system does not support folders', remedy: 'choose a folder elsewhere' }

const isBelow = (path: string, folder: string): boolean => path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)

/** The settings that lead to this path: one contains it, or names something above or below it. */
function namesOf(path: string, env: Readonly<Record<string, string | undefined>>): string | undefined {
  const leads = (value: string) =>
    value.startsWith('/')
      ? path === value || isBelow(path, value) || isBelow(value, path)
      : value.includes(path) || value.includes(encodeURIComponent(path))
  const isSetting = (name: string) => /^(DORMOUSE_|OIDC_|DATABASE_URL$|NODE_EXTRA_CA_CERTS$)/.test(name)
  const names = Object.keys(env).filter((name) => isSetting(name) && env[name] && leads(env[name]))
  return names.length > 0 ? names.join(' or ') : undefined
}
