// Guarantee: a client of tools gets its answer in a form that it takes, and is refused only if it takes neither.
import { expect, test } from 'vitest'
import { type Form, formFor } from './accept.ts'

test.each<[string | undefined, Form | undefined]>([
  [undefined, 'json'],
  ['', 'json'],
  ['*/*', 'json'],
  ['application/json, text/event-stream', 'stream'],
  ['text/event-stream, application/json', 'stream'],
  ['application/json,text/event-stream', 'stream'],
  ['APPLICATION/JSON, Text/Event-Stream', 'stream'],
  ['application/*, text/*', 'json'],
  ['application/json', 'json'],
  ['application/json; charset=utf-8', 'json'],
  ['text/event-stream', 'stream'],
  ['text/*', 'stream'],
  ['application/json;q=0.5, text/event-stream', 'stream'],
  ['application/json, text/event-stream;q=0.5', 'json'],
  ['application/json, text/event-stream;q=0', 'json'],
  ['application/json;q=0, text/event-stream', 'stream'],
  ['*/*;q=0.1, application/json;q=0', 'stream'],
  ['text/html, application/xhtml+xml, */*; q=0.8', 'json'],
  ['text/event-stream; q = 1, */*', 'stream'],
  ['application/json;q=nonsense, text/event-stream', 'stream'],
  ['text/html', undefined],
  ['application/json;q=0', undefined],
  ['*/*;q=0', undefined],
  ['application/jsonp', undefined],
])('Accept: %s', (accept, form) => {
  expect(formFor(accept)).toBe(form)
})
