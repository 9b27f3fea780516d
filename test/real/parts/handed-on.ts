// What tests of a file hand on to each other, because an emulated boot takes seconds: a desktop that is awake, or two.

export class HandedOn<T> {
  readonly #make: () => Promise<T>
  #value: T | undefined

  constructor(make: () => Promise<T>) {
    this.#make = make
  }

  /** The value that the last test has given back, or a new one. A test that fails gives nothing back. */
  async take(): Promise<T> {
    const found = this.#value
    this.#value = undefined
    return found ?? this.#make()
  }

  giveBack(value: T): void {
    this.#value = value
  }
}
