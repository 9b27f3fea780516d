// Compiles the supervisor, and writes it as text into the agent's scripts: `node apps/agent/supervisor/build.ts`.
import { join } from 'node:path'
import { keepAsText } from '../../../scripts/testbed/static-program.ts'

const here = import.meta.dirname

export const supervisorSource = join(here, 'main.c')

if (process.argv[1] === import.meta.filename)
  keepAsText('supervisor', supervisorSource, join(here, '../src/scripts/supervisor-program.ts'))
