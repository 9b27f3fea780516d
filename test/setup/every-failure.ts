// If a test fails, and then what it used cannot be closed in order, JavaScript makes one error of both that says neither.
// Each is told, the test's own first.
import { afterEach, type TestError } from 'vitest'

const each = (error: TestError): TestError[] =>
  error.name === 'SuppressedError'
    ? [...each(error.suppressed as TestError), ...each(error.error as TestError)]
    : [error]

afterEach(({ task }) => {
  if (task.result?.errors) task.result.errors = task.result.errors.flatMap(each)
})
