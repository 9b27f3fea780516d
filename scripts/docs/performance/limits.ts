// What limits the service, as profiles have shown it. Text of docs/performance.md; changed with the code that changes it.

export const limits = `**Operations.** The round trips to Postgres, not what Postgres does in them. A wake or a hibernate sends 30 statements; of
these, 13.5 are \`begin\`, the fence and \`commit\` of 4.5 transactions. Postgres works on all of them for 2.5 ms, on a busy
machine. In the control plane's CPU profile, with 16 and 48 callers:

| part of the CPU time | where |
| --- | --- |
| 36 % | system calls that write to sockets (\`writev\`, \`write\`): one for each statement, each frame of a link and each response |
| 11 % | \`pg\` and its protocol parser |
| 4 % | zod, at the edges |
| 4 % | garbage collection |
| 2 % | the engine |

So a statement that is joined to another, or sent in one write with it, saves more than a faster one.

**The host.** Before its journal became one log, a host synced 13.6 times and renamed 8 files for an operation, and took more
CPU time than the control plane. It now syncs 3.5 times and renames none, and takes two thirds of the control plane's.

**Tables.** On 100,000 desktops and 1,000,000 operations no statement of a route, an operation or a reconciler scans a large
table, but for one: operators' list of all hosts sums up all reservations. \`test/scale/plans.test.ts\` holds this.

To look yourself: \`npm run bench -- --only operations --cpu-prof FOLDER\` writes CPU profiles.`
