/** JSON, the same bytes as the Python package's. */
export { Float } from './json/numbers.js'
export { type Json, parse } from './json/reader.js'
export { stringify } from './json/writer.js'
