import { defineConfig } from 'vitest/config'

/** Three grounds: nothing at all (unit), Postgres with simulated hosts (house), real libvirt and QEMU (real). */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: [
            'packages/*/src/**/*.test.ts',
            'apps/*/src/**/*.test.ts',
            'scripts/**/*.test.ts',
            'infra/**/*.test.ts',
            'test/structure/**/*.test.ts',
          ],
          exclude: ['**/src/real/**', '**/node_modules/**'],
        },
      },
      {
        test: {
          name: 'house',
          include: ['test/house/**/*.test.ts'],
          globalSetup: 'test/ground.ts',
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'real',
          include: ['test/real/**/*.test.ts', 'packages/*/src/real/**/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 300_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
