// The container image of the control plane: an OCI layout as one tar file, made from the Debian package without a daemon. It has the
// libraries that Node needs, and no shell. Needs mmdebstrap and umoci.
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Of the suite whose libraries it has. */
const suite = 'trixie'
const libraries = ['base-files', 'libc6', 'libstdc++6', 'libgcc-s1', 'tzdata', 'ca-certificates', 'netbase']
const program = '/usr/lib/dormouse-control-plane'
/** No user of a host has this id. */
const userId = 10_001

export interface ImageOptions {
  version: string
  /** Seconds since 1970: the time of all that it contains. */
  epoch: number
  say: (words: string) => void
}

/** Makes `dormouse-control-plane_<version>.oci.tar` in the folder that has the package. Returns its name. */
export function packImage(folder: string, { version, epoch, say }: ImageOptions): string {
  const name = `dormouse-control-plane_${version}.oci.tar`
  say(`Making ${name}`)
  const work = mkdtempSync(join(tmpdir(), 'dormouse-image-'))
  const run = (command: string, ...words: string[]) =>
    execFileSync(command, words, {
      env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  try {
    const root = join(work, 'root')
    run('mmdebstrap', '--quiet', '--variant=extract', '--format=directory', `--include=${libraries}`, suite, root)
    run('dpkg-deb', '-x', join(folder, `dormouse-control-plane_${version}_amd64.deb`), join(work, 'package'))
    cpSync(join(work, 'package', program), join(root, program), { recursive: true })
    furnish(root)
    run('find', root, '-exec', 'touch', '--no-dereference', `--date=@${epoch}`, '{}', '+')
    const layout = join(work, 'layout')
    build(run, layout, version, root, new Date(epoch * 1_000).toISOString())
    const times = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner']
    run('tar', ...times, '-cf', join(folder, name), '-C', layout, '.')
    return name
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** Keeps what the program reads. */
function furnish(root: string): void {
  const own = 'dormouse-control-plane'
  const unused = [
    'usr/share/{doc,man,locale,info,lintian,bug}',
    'var/{cache,log}',
    'var/lib/{apt,dpkg}',
    'etc/apt',
    'dev',
    'usr/share/doc',
  ]
  for (const pattern of unused)
    for (const path of globSync(pattern, { cwd: root })) rmSync(join(root, path), { recursive: true, force: true })
  mkdirSync(join(root, 'dev'))
  const authorities = globSync('usr/share/ca-certificates/mozilla/*.crt', { cwd: root }).sort()
  mkdirSync(join(root, 'etc/ssl/certs'), { recursive: true })
  writeFileSync(
    join(root, 'etc/ssl/certs/ca-certificates.crt'),
    authorities.map((path) => readFileSync(join(root, path), 'utf8')).join(''),
  )
  writeFileSync(join(root, 'etc/passwd'), `dormouse:x:${userId}:${userId}:${own}:/:/usr/sbin/nologin\n`)
  writeFileSync(join(root, 'etc/group'), `dormouse:x:${userId}:\n`)
}

function build(
  run: (command: string, ...words: string[]) => void,
  layout: string,
  version: string,
  root: string,
  created: string,
): void {
  const image = `${layout}:${version}`
  const history = ['--history.created', created, '--history.created_by', 'npm run release']
  run('umoci', 'init', '--layout', layout)
  run('umoci', 'new', '--image', image)
  run('umoci', 'insert', '--image', image, ...history, root, '/')
  const words = [`${program}/node`, '--enable-source-maps', '--use-system-ca', `${program}/main.js`]
  run(
    'umoci',
    ...['config', '--image', image, '--created', created, ...history, '--architecture', 'amd64', '--os', 'linux'],
    ...['--config.user', `${userId}:${userId}`, '--config.exposedports', '8080/tcp', '--config.stopsignal', 'SIGTERM'],
    ...['--config.env', 'NODE_OPTIONS=--max-semi-space-size=8', '--config.env', 'DORMOUSE_HOST=0.0.0.0'],
    ...words.flatMap((word) => ['--config.entrypoint', word]),
  )
  run('umoci', 'gc', '--layout', layout)
}
