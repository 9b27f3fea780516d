// What limits the service, as profiles have shown it. Text of docs/performance.md; changed with the code that changes it.

export const limits = `**Operations.** The CPU of the machine that all parts share. Most of it is system calls and row updates, not decisions. The
control plane's profile with 16 callers:

| part of the CPU time | where |
| --- | --- |
| 28 % | system calls that write to sockets: one for each batch of statements, each frame of a link and each response |
| 11 % | \`pg\` and its protocol parser |
| 6 % | zod, at the edges |
| 5 % | transactions and their batches |
| 4 % | garbage collection |
| 3 % | the engine |

Postgres works about 3 ms on the statements of one operation, without waits for locks. Closing and opening a usage interval
cost most (0.5 ms each), then settling the operation (0.5 ms), storing it (0.4 ms), and the desktop's transition (0.4 ms).
No update of \`desktops\`, \`operations\` or \`usage_intervals\` is a heap-only one, because their states are in the predicates
of indexes. Wakes that begin on one host commit one after the other behind its advisory lock: 12 ms of waiting each with 16
callers on two hosts.

**First wakes** cost four commits: acceptance, placement with the first mark, the mark of the run, settlement.

**The host.** It syncs 3 times for an operation and renames nothing. Its profile with 16 callers: 15 % socket writes, 14 %
handing syncs and removals to the thread pool, 14 % other file calls, 11 % the simulated driver itself, 7 % zod.

**Memory.** The live heap after 20,000 creates is 27 MiB. The rest is what V8 and the allocator have not given back.

**20,000 desktops on 1,000 hosts.** A first wake costs 9 ms of the control plane, 13 ms of Postgres and 6 ms of the hosts, so
two cores settle 62 a second. Reads miss their goal at p99 (116 ms, goal 25) and memory its own (672 MiB, goal 600). No
profile of these two has been taken.

**Tables.** On 100,000 desktops and 1,000,000 operations no statement of a route, an operation or a reconciler scans a large
table, but for one: operators' list of all hosts sums up all reservations. \`test/scale/plans.test.ts\` holds this.

To look yourself: \`npm run bench -- --only operations --cpu-prof FOLDER\` writes CPU profiles.`
