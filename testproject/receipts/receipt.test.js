import assert from 'node:assert/strict'
import { test } from 'node:test'
import { receiptPage } from './receipt.js'

const receipt = {
  number: 'AB23CD45EF', name: 'Ada', product: 'Sencha', quantity: 2, price: '12.00', total: '24.00',
  paid_at: '2026-11-30T23:30:00+00:00',
}

test('a receipt says what was paid', () => {
  const page = receiptPage(receipt)
  for (const text of ['AB23CD45EF', 'Ada', 'Sencha', '£12.00', '<td>2</td>', '£24.00', '30 November 2026']) {
    assert.ok(page.includes(text), text)
  }
})

test('whatever an order holds is text on its receipt', () => {
  const plain = receiptPage(receipt)
  const hostile = `</style><script>alert(1)</script><img src=x onerror='alert("1")'>&amp;`
  const shown = '&#60;/style&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#60;img src=x onerror=&#39;' +
    'alert(&#34;1&#34;)&#39;&#62;&#38;amp;'
  for (const field of ['number', 'name', 'product', 'quantity', 'price', 'total']) {
    const page = receiptPage({ ...receipt, [field]: hostile })
    assert.equal(page.replaceAll(shown, String(receipt[field])).length, plain.length, field)
    assert.ok(page.includes(shown), field)
  }
  assert.throws(() => receiptPage({ ...receipt, paid_at: hostile }), RangeError)
})

test('a receipt asks nobody for anything and runs nothing', () => {
  assert.doesNotMatch(receiptPage(receipt), /<script|\bon\w+=|https?:|url\(|@import/i)
})
