// What `console.log` shows of the SDK's objects: their fields are private, and an empty object would help nobody.

/** Node's and Bun's name for it. No module of a platform is imported: browsers have none. */
export const inspect: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never

export type Inspect = (value: unknown, options?: unknown) => string

/** An object of that class with these fields alone. */
export function showFields(name: string, fields: object, options: unknown, inspectValue?: Inspect): unknown {
  return inspectValue ? `${name} ${inspectValue(fields, options)}` : { ...fields }
}
