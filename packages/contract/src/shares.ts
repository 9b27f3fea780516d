// What a desktop gets of its host while others want the same. Set for each tier; sent with what an agent is told of a desktop.
import { z } from 'zod'

const limit = (most: number, what: string) => z.int().min(1).max(most).nullable().describe(`${what}; null: no limit`)

export const exampleShares = {
  cpu_weight: 100,
  disk_iops: 2_000,
  disk_mib_per_second: 50,
  network_mbit_per_second: 100,
  packets_per_second: 10_000,
  connections: 1_000,
}

export const shares = z
  .object({
    cpu_weight: z
      .int()
      .min(1)
      .max(10_000)
      .nullable()
      .describe(
        'If the processors do not suffice, each desktop gets of them in proportion to its weight; null: the weight of the host’s other processes, 100 on most',
      ),
    disk_iops: limit(10_000_000, 'Reads and writes a second; for ten seconds twice as many'),
    disk_mib_per_second: limit(1_000_000, 'MiB read and written a second; for ten seconds twice as many'),
    network_mbit_per_second: limit(1_000_000, 'Mbit a second sent, and as many received'),
    packets_per_second: limit(100_000_000, 'Packets sent a second'),
    connections: limit(10_000_000, 'Connections that its programs have opened at one time'),
  })
  .meta({
    id: 'Shares',
    description: 'What a desktop gets of its host while others want the same, from its next wake on',
    examples: [exampleShares],
  })
export type Shares = z.infer<typeof shares>
