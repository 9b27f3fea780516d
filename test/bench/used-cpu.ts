// CPU time that a service uses for a piece of work.
import type { Service } from './service.ts'

/** Runs the work; CPU time in µs per thing done, of each of the service's processes, named `cpu …`. */
export async function cpuOver<T>(service: Service, work: () => Promise<T>, done: (value: T) => number) {
  const before = service.cpuMs()
  const value = await work()
  const after = service.cpuMs()
  const cpuUsEach = Object.fromEntries(
    Object.entries(after).map(([name, ms]) => [`cpu ${name}`, ((ms - before[name]!) * 1_000) / done(value)]),
  )
  return { value, cpuUsEach }
}
