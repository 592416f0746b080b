// Producer and worker of the bullmq adapter: the same actions as inside.py.
import { openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker } from 'bullmq';

const [action, options] = [process.argv[2], JSON.parse(process.argv[3])];
const connection = { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS_PORT) };
const board = openSync(process.env.BENCH_BOARD, 'r+');
const tag = 'order-confirmation';
const runs = new Map();

// The board of probe.py, written with one pwrite (Node.js cannot map memory).
function mark(i, started) {
  const slot = Buffer.alloc(24);
  const now = process.hrtime.bigint();
  const times = (runs.get(i) ?? 0) + 1;
  runs.set(i, times);
  slot.writeBigUInt64LE(started ?? now, 0);
  slot.writeBigUInt64LE(now, 8);
  slot.writeBigUInt64LE(BigInt(times), 16);
  writeSync(board, slot, 0, 24, i * 32 + 8);
}

function enqueued(i) {
  const slot = Buffer.alloc(8);
  slot.writeBigUInt64LE(process.hrtime.bigint(), 0);
  writeSync(board, slot, 0, 8, i * 32);
}

if (action === 'work') {
  new Worker('bench', async (job) => {
    if (job.name === 'noop') return mark(job.data.i);
    const started = process.hrtime.bigint();
    await sleep(10);
    mark(job.data.i, started);
  }, { connection, concurrency: options.conc });
} else if (action === 'prepare') {
  console.log('{}');
} else {
  const queue = new Queue('bench', {
    connection, defaultJobOptions: { removeOnComplete: true },
  });
  await queue.waitUntilReady();
  const { task, n, start = 0, warm = 0, gap = 0 } = options;
  const add = (i) => queue.add(task, { i, tag });
  if (action === 'enqueue') for (let i = n; i < n + warm; i++) await add(i);
  if (action === 'pace') for (let i = n; i < n + 20; i++) await add(i);
  const wall = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  if (action === 'enqueue') {
    for (let i = start; i < start + n; i++) await add(i);
  } else if (action === 'bulk') {
    for (let at = 0; at < n; at += 1000) {
      const jobs = [];
      for (let i = at; i < Math.min(n, at + 1000); i++) jobs.push({ name: task, data: { i, tag } });
      await queue.addBulk(jobs);
    }
  } else if (action === 'pace') {
    await sleep(300);
    for (let i = start; i < start + n; i++) {
      enqueued(i);
      await add(i);
      await sleep(gap * 1000);
    }
  }
  const used = process.cpuUsage(cpu);
  console.log(JSON.stringify({
    wall: Number(process.hrtime.bigint() - wall) / 1e9,
    cpu: (used.user + used.system) / 1e6,
  }));
  process.exit(0);
}
