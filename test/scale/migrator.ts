// A migrator in a process of its own, so that it can be killed: `node migrator.ts <database URL> <folder of migrations>`.
import { pathToFileURL } from 'node:url'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { createLog } from '@dormouse/process'

const [databaseUrl = '', folder = ''] = process.argv.slice(2)
await migrate({ databaseUrl, log: createLog({ name: 'migrator' }), folder: pathToFileURL(`${folder}/`) })
