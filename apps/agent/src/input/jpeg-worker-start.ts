// Where the thread that encodes JPEG begins. In the bundle, which is one file, this is the thread's whole text
// (scripts/build/jpeg-worker.ts).
export const jpegWorker: { start: URL | string; eval: boolean } = {
  start: new URL('./jpeg-worker.ts', import.meta.url),
  eval: false,
}
