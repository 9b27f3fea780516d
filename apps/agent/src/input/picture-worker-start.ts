// The file with which the thread that makes pictures begins. In the bundle, which is one file, this is the thread's whole text
// (scripts/build/picture-worker.ts).
export const pictureWorker: { start: URL | string; eval: boolean } = {
  start: new URL('./picture-worker.ts', import.meta.url),
  eval: false,
}
