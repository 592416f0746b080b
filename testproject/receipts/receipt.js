// The page of a receipt: it brings all that it needs, asks nobody for anything, and runs nothing.
import { readFileSync } from 'node:fs'

const style = readFileSync(new URL('receipt.css', import.meta.url), 'utf8')
const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' })

const escaped = (value) => String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
/** HTML, in which each value is text, whatever it holds. */
const html = (parts, ...values) => String.raw({ raw: parts }, ...values.map(escaped))

const LEAF =
  'M20.5 3.5C10 3 4.5 7.5 4.5 13.200c0 1.3.3 2.5.8 3.500C7.5 12.5 11 9.5 15.5 8 11.5 10.5 8 14 5.8 20.2' +
  'l1.6.6c.4-1 .8-1.9 1.3-2.7 1 .5 2.2.7 3.4.6C18 18.3 21.5 13 20.5 3.500z'

/** Return the page of a receipt; its `price` and `total` are text, `paid_at` is a moment in ISO 8601. */
export const receiptPage = ({ number, name, product, quantity, price, total, paid_at: paidAt }) => html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Receipt ${number} · Kettle &amp; Leaf</title>
  <link rel="icon" href="data:,">
  <style>`.concat(style, html`</style>
</head>
<body>
  <main>
    <header>
      <svg viewBox="0 0 24 24" aria-hidden="true"><path d="${LEAF}"/></svg>
      <p>Kettle &amp; Leaf</p>
    </header>
    <h1>Receipt</h1>
    <dl>
      <div><dt>Order</dt><dd class="code">${number}</dd></div>
      <div><dt>Paid</dt><dd><time datetime="${paidAt}">${day.format(new Date(paidAt))}</time></dd></div>
      <div><dt>For</dt><dd>${name}</dd></div>
    </dl>
    <table>
      <thead>
        <tr><th scope="col">Item</th><th scope="col">Price</th><th scope="col">Qty</th><th scope="col">Amount</th></tr>
      </thead>
      <tbody>
        <tr><td>${product}</td><td>£${price}</td><td>${quantity}</td><td>£${total}</td></tr>
      </tbody>
      <tfoot>
        <tr><th scope="row" colspan="3">Total</th><td>£${total}</td></tr>
      </tfoot>
    </table>
    <p class="paid">Paid in full. Thank you.</p>
  </main>
</body>
</html>
`)
