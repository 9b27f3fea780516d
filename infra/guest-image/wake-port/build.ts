// Compiles the guest's end of the wake port, and writes it as text beside it: `node infra/guest-image/wake-port/build.ts`.
import { join } from 'node:path'
import { keepAsText } from '../../../scripts/testbed/static-program.ts'

const here = import.meta.dirname

export const wakePortSource = join(here, 'wake-port.c')

if (process.argv[1] === import.meta.filename) keepAsText('wakePort', wakePortSource, join(here, 'program.ts'))
