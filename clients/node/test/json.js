// What the tests of JSON share.

/** Return what an error must be like. */
export function refusal(kind, reason) {
  return { name: kind.name, message: reason }
}
