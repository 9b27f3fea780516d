// The thread that makes pictures: it scales the pixels of a screen, and encodes them as PNG or JPEG. Each takes up to seconds of
// processor time, which heartbeats must not wait for.
import { parentPort } from 'node:worker_threads'
import encode, { init } from '@jsquash/jpeg/encode.js'
import { PNG } from 'pngjs'
import { jpegWasm } from './jpeg-wasm.ts'
import type { PictureRequest } from './picture-encoder.ts'
import { scaled } from './scaling.ts'

/** Progressive takes twice the time, and saves 3 %. Baseline is what every decoder knows. */
const options = { progressive: false, baseline: true }

/** Its own way to find the file is one of browsers. */
let ready: Promise<unknown> | undefined

parentPort!.on('message', async (request: PictureRequest) => {
  const bytes = request.format === 'png' ? toPng(request) : await toJpeg(request)
  parentPort!.postMessage(bytes, [bytes])
})

function toPng(request: PictureRequest): ArrayBuffer {
  const png = new PNG(request.size)
  png.data = Buffer.from(scaled(request, 3).buffer)
  const packed = PNG.sync.write(png, { inputHasAlpha: false, inputColorType: 2, colorType: 2, deflateLevel: 6 })
  // A buffer of its own, as it goes to the other thread.
  return new Uint8Array(packed).buffer
}

async function toJpeg(request: PictureRequest): Promise<ArrayBuffer> {
  ready ??= init({ wasmBinary: jpegWasm, locateFile: (name: string) => name })
  await ready
  const data = new Uint8ClampedArray(scaled(request, 4).buffer)
  return await encode({ ...request.size, data } as Parameters<typeof encode>[0], {
    ...options,
    quality: request.quality,
  })
}
