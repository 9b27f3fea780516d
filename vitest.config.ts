import { configDefaults, defineConfig } from 'vitest/config'
import { fastFolder } from './test/setup/fast-folder.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
/** These take minutes on emulated guests and rarely break: they have their turn in `npm run test:long`. */
const notAtLength = long
  ? []
  : [
      'test/real/agent-clipboard.test.ts',
      'test/real/agent-memory.test.ts',
      // Its short form runs over the simulated hypervisor (apps/agent/src/desktops/templates.test.ts).
      'test/real/agent-templates.test.ts',
      'test/real/agent-template-deaths.test.ts',
      'test/real/first-wakes.test.ts',
      'test/real/unfurnished-desktops.test.ts',
      'test/real/agent-shared-templates.test.ts',
      'test/real/agent-own-user.test.ts',
      // Its short form runs over the simulated hypervisor (apps/agent/src/desktops/warm-copies.test.ts) and in main-job.
      'test/real/agent-warm.test.ts',
      'test/real/agent-warm-deaths.test.ts',
      'test/real/warm-pressure.test.ts',
      // Its short form are the same cases on simulated hosts (test/integration/contract.test.ts).
      'test/real/contract.test.ts',
      'test/real/guest-*.test.ts',
      'test/real/interrupted.test.ts',
      'test/real/move.test.ts',
      'test/real/move-deaths.test.ts',
      'test/real/move-troubles.test.ts',
      // Its short form loads the same rules into a real kernel (test/real/firewall.test.ts).
      'test/real/neighbours.test.ts',
      'test/real/screens-at-once.test.ts',
    ]

/** These take a minute on simulated hosts and rarely break; others try the same in fewer cases. */
const notEachTime = long
  ? []
  : [
      // Beside test/integration/moves.test.ts.
      'test/integration/moves-hibernated.test.ts',
      // Beside test/integration/fuzz.test.ts.
      'test/integration/fuzz-guests.test.ts',
      // Beside test/integration/every-route.test.ts, and the refusals that each test expects.
      'test/integration/causes.test.ts',
      // Beside test/real/main-job.test.ts.
      'test/integration/paused-guests.test.ts',
      // Beside test/integration/postgres.test.ts.
      'test/integration/database-troubles.test.ts',
      'test/integration/database-at-start.test.ts',
    ]

/** Only real guests get a second try, and only under CI: a noisy machine stops QEMU for seconds. `npm test` names each. */
const retry = process.env.CI ? 1 : 0

/** How long a test may wait for what comes at once on a quiet machine: it spawns processes, and shares its processors. */
const patient = { testTimeout: 120_000, hookTimeout: 120_000, expect: { poll: { timeout: 30_000 } } }

/** Files of a worker share its process: to load the two programs again takes seconds for each. */
const oneProcess = { isolate: false }

const everyFailure = 'test/setup/every-failure.ts'

/** Three testbeds: nothing at all (unit), Postgres with simulated hosts (integration, scale), real libvirt and QEMU (the others). */
export default defineConfig({
  test: {
    // Twice the two processors of CI: a file waits for guests, leases and timeouts for a third of its time.
    maxWorkers: 4,
    projects: [
      {
        test: {
          ...patient,
          ...oneProcess,
          name: 'unit',
          setupFiles: everyFailure,
          include: [
            'packages/*/src/**/*.test.ts',
            'apps/*/src/**/*.test.ts',
            'apps/agent/supervisor/*.test.ts',
            'scripts/**/*.test.ts',
            'infra/**/*.test.ts',
            'test/structure/**/*.test.ts',
          ],
          exclude: ['**/src/real/**', '**/node_modules/**'],
        },
      },
      {
        test: {
          ...patient,
          ...oneProcess,
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...notEachTime],
          env: { TMPDIR: fastFolder() },
          globalSetup: 'test/setup/postgres.ts',
          setupFiles: [everyFailure, 'test/setup/every-answer.ts'],
        },
      },
      {
        test: {
          ...patient,
          name: 'scale',
          include: ['test/scale/**/*.test.ts'],
          globalSetup: 'test/setup/postgres.ts',
          setupFiles: [everyFailure, 'test/setup/every-answer.ts'],
          testTimeout: 900_000,
          // Each fills the machine by itself.
          fileParallelism: false,
        },
      },
      {
        test: {
          ...patient,
          retry,
          name: 'real',
          include: ['test/real/**/*.test.ts', 'packages/*/src/real/**/*.test.ts'],
          setupFiles: [everyFailure, 'test/setup/every-answer.ts'],
          exclude: [...configDefaults.exclude, ...notAtLength],
          testTimeout: 600_000,
          hookTimeout: 300_000,
          // At full length one by one: those fill every processor by themselves.
          fileParallelism: !long,
        },
      },
      {
        test: {
          ...patient,
          retry,
          name: 'kernels',
          // Guests with the kernel of Debian 13: what depends on a kernel is that a guest wakes from memory as itself alone.
          env: { DORMOUSE_TEST_KERNEL_OF: 'trixie', DORMOUSE_TEST_LONG: '1' },
          include: ['agent-templates', 'agent-shared-templates', 'agent-warm', 'agent-memory'].map(
            (name) => `test/real/${name}.test.ts`,
          ),
          setupFiles: everyFailure,
          testTimeout: 600_000,
          hookTimeout: 300_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          ...patient,
          retry,
          name: 'install',
          include: ['test/install/**/*.test.ts', 'test/integration/host-install.test.ts'],
          globalSetup: 'test/setup/postgres.ts',
          setupFiles: [everyFailure, 'test/setup/every-answer.ts'],
          testTimeout: 900_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          ...patient,
          name: 'packages',
          include: ['test/packages/**/*.test.ts'],
          setupFiles: everyFailure,
          fileParallelism: false,
        },
      },
      {
        test: {
          ...patient,
          retry,
          name: 'desktop',
          setupFiles: everyFailure,
          include: ['test/desktop/**/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 300_000,
          // Each emulates a whole desktop.
          fileParallelism: false,
        },
      },
    ],
  },
})
