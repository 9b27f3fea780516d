// XML as a tree, as far as libvirt writes it: elements, attributes and text. Anything else is refused, since what is read may
// come from another host.
export interface XmlElement {
  name: string
  attributes: Record<string, string>
  children: (XmlElement | string)[]
}

const maxChars = 512 * 1024
const maxDepth = 32
const nameForm = '[A-Za-z_][\\w.:-]*'
const attributeForm = new RegExp(`\\s+(${nameForm})\\s*=\\s*(?:"([^"<]*)"|'([^'<]*)')`, 'y')
const openForm = new RegExp(`<(${nameForm})`, 'y')
const openEndForm = /\s*(\/?)>/y
const closeForm = new RegExp(`</(${nameForm})\\s*>`, 'y')
const textForm = /[^<]+/y

/** The document's root. Throws if the text is anything but elements, attributes and text. */
export function parseXml(text: string): XmlElement {
  if (text.length > maxChars) throw new Error(`the XML has more than ${maxChars} characters`)
  const source = new Source(text)
  source.take(textForm)
  const root = readElement(source, 0)
  source.take(textForm)
  if (!source.ended) throw new Error('the XML goes on after its root')
  return root
}

class Source {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  get ended(): boolean {
    return this.#at === this.#text.length
  }

  take(form: RegExp): RegExpExecArray | null {
    form.lastIndex = this.#at
    const found = form.exec(this.#text)
    if (found) this.#at += found[0].length
    return found
  }

  need(form: RegExp): RegExpExecArray {
    return this.take(form) ?? refuse(this.#at)
  }
}

function readElement(source: Source, depth: number): XmlElement {
  if (depth > maxDepth) throw new Error('the XML is nested too deeply')
  const element: XmlElement = { name: source.need(openForm)[1]!, attributes: {}, children: [] }
  for (let found = source.take(attributeForm); found; found = source.take(attributeForm)) {
    const name = found[1]!
    if (Object.hasOwn(element.attributes, name)) throw new Error(`the attribute "${name}" is there twice`)
    element.attributes[name] = decode(found[2] ?? found[3]!)
  }
  if (source.need(openEndForm)[1] === '/') return element
  for (;;) {
    const text = source.take(textForm)
    if (text) {
      element.children.push(decode(text[0]))
      continue
    }
    const close = source.take(closeForm)
    if (!close) {
      element.children.push(readElement(source, depth + 1))
      continue
    }
    if (close[1] !== element.name) throw new Error(`<${element.name}> ends with </${close[1]}>`)
    return element
  }
}

const named: Record<string, string> = { lt: '<', gt: '>', apos: "'", quot: '"', amp: '&' }

function decode(text: string): string {
  return text.replace(/&([^;]*);?/g, (whole, name: string) => {
    if (!whole.endsWith(';')) throw new Error('a reference in the XML has no end')
    const number = /^#(?:x([\da-f]{1,6})|(\d{1,7}))$/i.exec(name)
    if (number) return String.fromCodePoint(Number.parseInt(number[1] ?? number[2]!, number[1] ? 16 : 10))
    return named[name] ?? refuseReference(name)
  })
}

const encode = (text: string): string => text.replace(/[&<>'"]/g, (char) => `&#${char.charCodeAt(0)};`)

export function formatXml({ name, attributes, children }: XmlElement): string {
  const given = Object.entries(attributes).map(([key, value]) => ` ${key}='${encode(value)}'`)
  const inside = children.map((child) => (typeof child === 'string' ? encode(child) : formatXml(child))).join('')
  return `<${name}${given.join('')}${inside ? `>${inside}</${name}>` : '/>'}`
}

/** The child elements, of that name if one is given. */
export const elementsOf = ({ children }: XmlElement, name?: string): XmlElement[] =>
  children.filter((child) => typeof child !== 'string' && (name === undefined || child.name === name)) as XmlElement[]

/** The element's own text. */
export const textOf = ({ children }: XmlElement): string =>
  children
    .filter((child) => typeof child === 'string')
    .join('')
    .trim()

function refuse(at: number): never {
  throw new Error(`the XML cannot be read at character ${at}`)
}

function refuseReference(name: string): never {
  throw new Error(`the XML has the unknown reference "&${name.slice(0, 20)};"`)
}
