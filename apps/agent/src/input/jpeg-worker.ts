// The thread that encodes JPEG: a picture of a screen takes 0.1 s of processor time, which heartbeats must not wait for.
import { parentPort } from 'node:worker_threads'
import encode, { init } from '@jsquash/jpeg/encode.js'
import type { JpegRequest } from './jpeg.ts'
import { jpegWasm } from './jpeg-wasm.ts'

/** Progressive takes twice the time, and saves 3 %. Baseline is what every decoder knows. */
const options = { progressive: false, baseline: true }

// Its own way to find the file is one of browsers.
const ready = init({ wasmBinary: jpegWasm, locateFile: (name: string) => name })

parentPort!.on('message', async ({ width, height, rgba, quality }: JpegRequest) => {
  await ready
  const picture: Parameters<typeof encode>[0] = { width, height, data: new Uint8ClampedArray(rgba) }
  const bytes = await encode(picture, { ...options, quality })
  parentPort!.postMessage(bytes, [bytes])
})
