// Builds the page into static files that the control plane serves.
import { defineConfig } from 'vite'

const notice = '/*! Contains noVNC, under the MPL 2.0: https://github.com/novnc/noVNC */'

export default defineConfig({
  base: '/screens/',
  build: {
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: false,
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: { output: { postBanner: notice } },
  },
})
