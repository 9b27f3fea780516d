// The kernel of another release of Debian than this machine's, for tests. The package lists of that release are kept apart from
// those of the machine.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run, type Say } from '../../../scripts/testbed/processes.ts'
import { type Deb, kernelFor, needed } from '../debs.ts'
import { distribution } from '../recipe.ts'

const keys = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** Downloads the release's kernel for virtual machines into the folder, from the mirror that this machine uses. */
export async function fetchKernelOf(release: string, folder: string, say: Say): Promise<Deb[]> {
  const { id, codename } = distribution()
  if (id !== 'debian')
    throw new Error(`a kernel of Debian's ${release} needs a machine with Debian; this one has ${id}`)
  const debs = join(folder, 'debs')
  for (const each of ['lists/partial', 'cache/archives/partial', 'debs'])
    mkdirSync(join(folder, each), { recursive: true })
  const env = { ...process.env, APT_CONFIG: await writeSettings(release, folder, await mirrorOf(codename)) }
  const apt = (...words: string[]) => run('apt-get', ['--quiet=2', ...words], { cwd: debs, env })
  say(`Updating the package lists of ${release}`)
  await apt('update')
  const kernel = kernelFor('machines')
  const listing = await run('apt-cache', ['depends', '--recurse', '--important', kernel], { env })
  await apt('download', ...needed([kernel], listing).filter((name) => /^linux-(image|modules)-\d/.test(name)))
  return Promise.all(readdirSync(debs).map((file) => describe(join(debs, file))))
}

async function mirrorOf(codename: string): Promise<string> {
  const targets = await run('apt-get', ['indextargets', '--format', '$(RELEASE) $(REPO_URI)', 'Created-By: Packages'])
  const found = new RegExp(`^${codename} (\\S+)$`, 'm').exec(targets)?.[1]
  if (!found) throw new Error(`apt has no source for Debian's ${codename}; add one to /etc/apt/sources.list`)
  return found
}

async function writeSettings(release: string, folder: string, mirror: string): Promise<string> {
  const [settings, sources] = [join(folder, 'apt.conf'), join(folder, 'sources.list')]
  writeFileSync(sources, `deb [signed-by=${keys}] ${mirror} ${release} main\n`)
  const lines = {
    'Dir::Etc::sourcelist': sources,
    'Dir::Etc::sourceparts': '/dev/null',
    'Dir::State::lists': join(folder, 'lists'),
    'Dir::State::status': '/dev/null',
    'Dir::Cache': join(folder, 'cache'),
    'Acquire::Languages': 'none',
    'APT::Sandbox::User': 'root',
  }
  const text = Object.entries(lines).map(([name, value]) => `${name} "${value}";\n`)
  writeFileSync(settings, text.join(''))
  return settings
}

async function describe(file: string): Promise<Deb> {
  const fields = await run('dpkg-deb', ['--field', file, 'Package', 'Version'])
  const [, name = '', version = ''] = /^Package: (.*)\nVersion: (.*)$/m.exec(fields) ?? []
  return { name, version, file }
}
