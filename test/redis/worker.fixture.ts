/** A worker as a process of its own, to be killed: arguments are Redis, folder of results, and its faults' seed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { stream } from '../../src/base/random.ts';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import { work } from '../../src/rollout/pool/redis-worker.ts';
import { RolloutFailure } from '../../src/rollout/rollout-failure.ts';
import { contextOf, FACTS, performWith } from './pool-support.ts';

const [url, resultsDir, seed] = process.argv.slice(2);
const random = stream(Number(seed), 'faults');
const context = contextOf(async () => {
  await sleep(20 + random.int(40));
  const draw = random.next();
  if (draw < 0.15) throw new RolloutFailure('http', 'internal error', 500);
  // Until the deadline of the job.
  if (draw < 0.2) await sleep(600_000);
  return undefined;
});
const say = (line: string): void => console.log(line);
const redis = await openRedis({ url: url!, prefix: 'test' }, { withinMs: 10_000, say });
await work({
  redis,
  prefix: 'test',
  run: 'run',
  facts: FACTS,
  resultsDir: resultsDir!,
  concurrency: 4,
  jobDeadlineMs: 500,
  backoffMs: 10,
  lockMs: 1_000,
  drainMs: 1_000,
  useEndpoints: () => {},
  perform: performWith(context),
  signal: new AbortController().signal,
  say,
});
