// How many requests a second one caller may send to this replica. Headers about it appear on a refusal only.

import { refuse } from '@dormouse/contract'
import rateLimit from '@fastify/rate-limit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from './server.ts'

/** Counts the request; refuses with `rate_limited` where it is one too many. */
export type RateLimit = (request: FastifyRequest, reply: FastifyReply) => Promise<void>

const windowMs = 1_000

/** Makes limits possible on this server; nothing is limited by this alone. */
export async function prepareRateLimits(app: App): Promise<void> {
  await app.register(rateLimit, { global: false })
}

/** A limit of so many requests a second for each caller, as `callerOf` tells them apart. */
export function rateLimitOf(app: App, perSecond: number, callerOf: (request: FastifyRequest) => string): RateLimit {
  const count = app.createRateLimit({ max: perSecond, timeWindow: windowMs, keyGenerator: callerOf })
  return async (request, reply) => {
    const state = await count(request)
    if (state.isAllowed || !state.isExceeded) return
    reply.headers({
      'x-ratelimit-limit': String(state.max),
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(state.ttlInSeconds),
    })
    refuse('rate_limited', `more than ${perSecond} requests in a second`, { retryAfterSecs: state.ttlInSeconds })
  }
}
