// Figures as text, the same in tables and plots.

/** Three digits that matter, and thousands in groups. */
export const number = (value: number): string =>
  Math.abs(value) >= 100
    ? Math.round(value).toLocaleString('en')
    : String(Number(value.toPrecision(Math.abs(value) >= 10 ? 3 : 2)))
