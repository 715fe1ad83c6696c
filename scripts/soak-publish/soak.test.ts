/** The soak itself, short: it passes, and it would fail if nothing were proved. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { writeAdapter } from '../../src/engine/peft.ts';
import { publish } from '../../src/trainer/publish.ts';
import { soak } from './soak.ts';
import { isSound } from './tally.ts';

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-soak-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Loads and lists, as `publish` does, and asks nothing else: what a publisher without a proof does. */
const unproved: typeof publish = async (target, _learner, adapter, version) => {
  const name = `soak-v${version}`;
  const folder = resolve(target.adapterRoot, name);
  await writeAdapter(folder, adapter, { baseModel: target.baseModel });
  await target.replicas.install({ version, name, folder, proof: null });
  return { version, model: name };
};

const short = { seed: 1, scratch, say: () => {} };

it.each(['keep-old', 'drop-replica'] as const)('%s: 15 publications, no wrong policy', async (mode) => {
  const tally = await soak({ ...short, publishes: 15, mode, publish });
  expect(tally).toMatchObject({ wrongPolicy: 0, leaked: 0, inRotation: 3, calm: { times: 2 } });
  expect(isSound(tally)).toBe(true);
  const { everywhere, withoutSome, keptOld } = tally.publications;
  expect(everywhere + withoutSome + keptOld).toBe(15);
  expect(Object.keys(tally.faults).length).toBeGreaterThan(5);
  expect(tally.rollouts.accepted).toBeGreaterThan(50);
});

it('finds answers by a wrong policy when nothing is proved', async () => {
  const tally = await soak({
    ...short,
    scratch: join(scratch, 'unproved'),
    publishes: 6,
    mode: 'drop-replica',
    publish: unproved,
    only: (one) => one.kind === 'request' && one.fault.kind === 'load-as-base',
  });
  expect(tally.wrongPolicy).toBeGreaterThan(0);
  expect(isSound(tally)).toBe(false);
});
