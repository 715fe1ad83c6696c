import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Job } from '../../trainer/retrain/records.ts';
import { writeJob } from '../../trainer/retrain/registry.ts';
import { lockRegistry } from '../../trainer/retrain/registry-lock.ts';
import { withRetrain } from '../../trainer/retrain/run-config.ts';
import { newPlace } from '../../trainer/retrain/test-support-retrain.ts';
import { readRetrainJob } from './read-job.ts';

const job: Job = {
  phase: 'train',
  format: 1,
  run: 'nightly-20261201-1',
  trigger: 'schedule',
  startedAt: '2026-12-01T03:00:00.000Z',
  settingsHash: 'h',
  champion: null,
  inbox: [],
  pairs: { train: 2, heldOut: 0, known: 0, refused: 0 },
  trainingSet: { hash: 't', questions: 5 },
  heldOut: { hash: 'v', questions: 20 },
};

test('a job from its first moment to its last, and one that was left', async () => {
  const { config, registry, root } = newPlace();
  const read = () => readRetrainJob(withRetrain(config), 0);
  expect(read()).toBeNull();
  const lock = await lockRegistry(registry.root, new Date(0));
  if ('heldBy' in lock) throw new Error(lock.heldBy);
  expect(read()).toMatch(/^collects pairs \(process \d+ on .* since 1970-/);
  await writeJob(registry, job);
  const run = join(root, 'runs', job.run);
  mkdirSync(run, { recursive: true });
  writeFileSync(join(run, 'metrics.jsonl'), '{"step":2,"reward/mean":0.5}\n');
  expect(read()).toMatch(/^nightly-20261201-1 trains, step 2 of 3 \(process \d+ on /);
  await writeJob(registry, { ...job, phase: 'evaluate', challenger: 'c' });
  expect(read()).toMatch(/^nightly-20261201-1 evaluates \(process /);
  lock.release();
  expect(read()).toBe('nightly-20261201-1 evaluates: unfinished, the next job goes on with it');
});
