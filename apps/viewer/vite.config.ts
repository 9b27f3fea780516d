// Builds the page into files that the control plane serves as they are.
import { defineConfig } from 'vite'

export default defineConfig({
  base: '/screens/',
  build: { target: 'es2023', assetsInlineLimit: 0, modulePreload: false, chunkSizeWarningLimit: 1_000 },
})
