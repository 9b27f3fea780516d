// Why a desktop cannot be woken any more, as its owner is told. Pure.

const sentences = {
  host_removed:
    'The host of this desktop was removed for good, and its only disk with it: its data is lost. Destroy it and create another.',
} as const

export type FailureCode = keyof typeof sentences

export const sentenceOf = (code: FailureCode): string => sentences[code]
