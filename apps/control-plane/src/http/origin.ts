// The origin under which a client reached this service, for URLs in responses.
import { refuseField } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'

export function originOf({ protocol, host }: FastifyRequest): string {
  if (!/^[\w.-]+(:\d+)?$|^\[[\da-f:.]+\](:\d+)?$/i.test(host)) refuseField('Host', 'must be a valid host name')
  return `${protocol}://${host}`
}
