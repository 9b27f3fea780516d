// Whether an answer is what the published OpenAPI document says: status, media type, headers, body. Nothing that the
// document does not name may come back, so that the document cannot lie. Knows the document, and no route by itself.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { keepAnswer } from './answers.ts'

export interface Exchange {
  method: string
  /** As sent, with its query. */
  path: string
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
}

interface Ref {
  $ref: string
}
interface Header {
  required?: boolean
  schema: object
}
interface Response {
  headers?: Record<string, Header | Ref>
  content?: Record<string, { schema: object }>
}
type Operation = { responses: Record<string, Response | Ref> }

export interface OpenApi {
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, object>>
}

/** Headers of HTTP itself and of its transport, which no document lists. */
const transport = new Set(
  'connection content-length content-type date keep-alive transfer-encoding vary allow'.split(' '),
)

export class AnswerChecker {
  #document: OpenApi
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  readonly #validators = new Map<string, ValidateFunction>()
  readonly #routes: { pattern: RegExp; weight: number; methods: Record<string, Operation> }[]

  constructor(document: OpenApi) {
    this.#document = document
    this.#document = closed(document, (given) => this.#resolve(given)) as OpenApi
    addFormats.default(this.#ajv, ['date-time', 'uuid'])
    this.#ajv.addFormat('binary', true)
    this.#ajv.addSchema({ $id: 'api', ...this.#document })
    this.#routes = Object.entries(this.#document.paths)
      .map(([path, methods]) => ({ pattern: patternOf(path), weight: path.split('{').length, methods }))
      .sort((a, b) => a.weight - b.weight)
  }

  /** What is wrong with the answer, in sentences; none if it is as documented. Paths outside of /v1 are nobody's. */
  complaints(exchange: Exchange): string[] {
    const path = exchange.path.split('?')[0]!
    if (!/^\/v1(\/|$)/.test(path)) return []
    const where = `${exchange.method} ${path} → ${exchange.status}`
    const operation = this.#operation(exchange.method, path)
    if (!operation || beforeAnyRoute(exchange)) return this.#unknownPath(where, exchange)
    const documented = operation.responses[String(exchange.status)]
    if (!documented) return [`${where}: the document does not name this status`]
    return this.#compare(where, this.#resolve<Response>(documented), exchange)
  }

  /** What is wrong with a value by a schema of the document. */
  wrongIn(what: string, schema: object, value: unknown): string[] {
    const validate = this.#validator(closed(schema, (given) => this.#resolve(given)) as object)
    return validate(value) ? [] : (validate.errors ?? []).map((one) => `${what}: ${one.instancePath} ${one.message}`)
  }

  #operation(method: string, path: string): Operation | undefined {
    const name = method.toLowerCase() === 'head' ? 'get' : method.toLowerCase()
    return this.#routes.find(({ pattern, methods }) => pattern.test(path) && methods[name])?.methods[name]
  }

  /** A path or method that is not there is refused with a problem like every other. */
  #unknownPath(where: string, exchange: Exchange): string[] {
    if (![400, 401, 404, 405, 429, 431, 500, 503].includes(exchange.status))
      return [`${where}: the document has no such path and method`]
    const problem = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }
    return this.#body(where, { content: problem }, exchange)
  }

  #compare(where: string, response: Response, exchange: Exchange): string[] {
    return [...this.#headers(where, response, exchange), ...this.#body(where, response, exchange)]
  }

  #headers(where: string, { headers = {} }: Response, exchange: Exchange): string[] {
    const found: string[] = []
    for (const [name, given] of Object.entries(headers)) {
      const { required = false } = this.#resolve<Header>(given)
      if (required && exchange.headers[name] === undefined) found.push(`${where}: the header ${name} is missing`)
    }
    for (const name of Object.keys(exchange.headers)) {
      if (!transport.has(name) && !(name in headers)) found.push(`${where}: the header ${name} is not documented`)
    }
    return found
  }

  #body(where: string, { content }: Response, { headers, text, method }: Exchange): string[] {
    if (!content) return text === '' ? [] : [`${where}: a body came where none is documented`]
    const type = String(headers['content-type'] ?? '').split(';')[0]!
    const media = content[type]
    if (!media) return [`${where}: Content-Type ${type || 'none'} is not documented`]
    if (!/json$/.test(type) || method.toUpperCase() === 'HEAD') return []
    const validate = this.#validator(media.schema)
    const body = parsed(text)
    if (body === undefined) return [`${where}: the body is not JSON`]
    return validate(body) ? [] : (validate.errors ?? []).map((one) => `${where}: ${one.instancePath} ${one.message}`)
  }

  #validator(schema: object): ValidateFunction {
    const name = JSON.stringify(schema)
    const known = this.#validators.get(name)
    if (known) return known
    const made = this.#ajv.compile(JSON.parse(name.replaceAll('"#/components', '"api#/components')) as object)
    this.#validators.set(name, made)
    return made
  }

  #resolve<T extends object>(given: T | Ref): T {
    if (!('$ref' in given)) return given
    const [, , group = '', name = ''] = given.$ref.split('/')
    return this.#document.components[group]![name] as T
  }
}

/** Headers too large for HTTP itself, and a HEAD if only GET is documented. */
const beforeAnyRoute = ({ method, status }: Exchange): boolean =>
  status === 431 || (status === 405 && method.toUpperCase() === 'HEAD')

/** As it is without a test's own look at every answer. */
export const plainFetch = globalThis.fetch

const checkers = new Map<string, Promise<AnswerChecker>>()
const origins = new Map<string, string>()

/**
 * Services that were started in this process with the same settings publish the same document. It is fetched once for
 * all of them: to make it costs a service as much processor time as its start.
 */
export function sharesDocument(baseUrl: string, settings: object): void {
  origins.set(baseUrl, JSON.stringify(settings))
}

/** Returns the exchange if it is as the service's own document says; throws with every difference otherwise. */
export async function checked<E extends Exchange>(baseUrl: string, exchange: E): Promise<E> {
  keepAnswer(baseUrl, exchange)
  const origin = origins.get(baseUrl) ?? baseUrl
  let checker = checkers.get(origin)
  if (!checker) {
    checker = documentOf(baseUrl).then((document) => new AnswerChecker(document))
    checkers.set(origin, checker)
    checker.catch(() => checkers.delete(origin))
  }
  const known = await checker.catch(unlessAway)
  const complaints = known?.complaints(exchange) ?? []
  if (complaints.length > 0) throw new Error(`not as documented:\n${complaints.join('\n')}\n${exchange.text}`)
  return exchange
}

/** A service that went away right after its first answer: the next one is looked at. */
function unlessAway(error: unknown): undefined {
  if (!(error instanceof TypeError)) throw error
}

async function documentOf(baseUrl: string): Promise<OpenApi> {
  const response = await plainFetch(`${baseUrl}/v1/openapi.json`)
  if (!response.ok) throw new Error(`no OpenAPI document at ${baseUrl}: ${response.status}`)
  return (await response.json()) as OpenApi
}

/** The last parameter of a path takes slashes if it is `path`: it is the rest of the path. */
function patternOf(path: string): RegExp {
  const source = path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll('{path}', '.+')
  return new RegExp(`^${source.replace(/\{[^}]+\}/g, '[^/]+')}$`)
}

/** The document lets answers grow; the service of today sends what it says today and nothing else. */
function closed(value: unknown, resolve: (given: object) => object): unknown {
  if (Array.isArray(value)) return value.map((inner) => closed(inner, resolve))
  if (typeof value !== 'object' || value === null) return value
  if ('allOf' in value) return closed(joined((value.allOf as object[]).map(resolve)), resolve)
  const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner, resolve)]))
  const isShape = copy.type === 'object' && copy.properties !== undefined && copy.additionalProperties === undefined
  return isShape ? { ...copy, additionalProperties: false } : copy
}

/** One shape with the properties of all. */
function joined(shapes: { properties?: object; required?: string[] }[]): object {
  const properties = Object.assign({}, ...shapes.map((shape) => shape.properties)) as object
  return { type: 'object', properties, required: shapes.flatMap(({ required = [] }) => required) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
