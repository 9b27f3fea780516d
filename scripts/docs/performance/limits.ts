// What limits the service, as profiles have shown it. Text of docs/performance.md; changed with the code that changes it.

export const limits = `To look yourself: \`node --cpu-prof\` on \`apps/control-plane/src/main.ts\`, and \`pg_stat_statements\`, which is in the
Postgres that \`npm start\` uses.`
