// Works on the shop's task `receipts.render`, and gives back what it makes with `receipts.file`, a task of the shop.
import { Taskq, Worker } from 'django-taskq-redis'
import { receiptPage } from './receipt.js'

const taskq = new Taskq({ url: process.env.TASKQ_REDIS_URL ?? 'redis://localhost:6379/0', namespace: 'taskq-demo' })

/** Make the receipt of an order, and have it filed; return the id of the task that does so. */
async function render([receipt]) {
  // This may run twice for an order; by the key its receipt is filed once.
  const idempotencyKey = `receipts.file-${receipt.number}`
  const filing = await taskq.enqueue('receipts.file', [receipt.number, receiptPage(receipt)], { idempotencyKey })
  return filing.id
}

const worker = new Worker(taskq, { queues: ['receipts'], tasks: { 'receipts.render': render } })
const { forced } = await worker.run({ signals: true })
await taskq.close()
process.exit(forced ? 5 : 0) // or a task that doesn't heed its signal would run on
