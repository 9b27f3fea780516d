// The encoder's machine code, from its package. In the bundle it is part of the worker's text (scripts/build/jpeg-worker.ts).
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const jpegWasm: Uint8Array<ArrayBuffer> = readFileSync(
  fileURLToPath(import.meta.resolve('@jsquash/jpeg/codec/enc/mozjpeg_enc.wasm')),
)
