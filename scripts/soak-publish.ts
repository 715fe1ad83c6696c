/**
 * `npm run soak:publish`: publications over three hostile servers, under every fault that they know, with
 * rollouts under way all the time; half of them with `onPartialFailure: keep-old`, half with `drop-replica`.
 * docs/publish.md tells what is counted. The last line is one JSON object; it fails when an answer by a wrong
 * policy was accepted, an adapter was left over, or a replica did not come back.
 *
 * Options: `--publishes N` (default 1000), `--seed N` of the faults, `--verbose` for what happens to replicas.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/base/errors.ts';
import { publish } from '../src/trainer/publish.ts';
import { tableOf } from './soak-publish/report.ts';
import { soak } from './soak-publish/soak.ts';
import { isSound, sum } from './soak-publish/tally.ts';

function options(): { publishes: number; seed: number; verbose: boolean } {
  const { values } = parseArgs({
    options: {
      publishes: { type: 'string', default: '1000' },
      seed: { type: 'string', default: '1' },
      verbose: { type: 'boolean', default: false },
    },
  });
  const [publishes, seed] = [Number(values.publishes), Number(values.seed)];
  if (!(Number.isInteger(publishes) && publishes >= 2 && Number.isInteger(seed) && seed >= 0))
    throw new Error('--publishes is a whole number from 2 on, --seed one from 0 on');
  return { publishes, seed, verbose: values.verbose };
}

async function main(scratch: string): Promise<void> {
  const { publishes, seed, verbose } = options();
  const half = Math.floor(publishes / 2);
  const say = (line: string): void => {
    if (verbose || /^[A-Z]{4,} /.test(line)) console.log(line);
  };
  const run = (mode: 'keep-old' | 'drop-replica', count: number) =>
    soak({ publishes: count, seed, mode, scratch, publish, say });
  const modes = {
    'keep-old': await run('keep-old', half),
    'drop-replica': await run('drop-replica', publishes - half),
  };
  const both = sum(modes['keep-old'], modes['drop-replica']);
  console.log(tableOf(both));
  for (const [mode, { faults: _, ...tally }] of Object.entries(modes))
    console.log(mode, JSON.stringify(tally));
  const inRotation = Object.values(modes).map((tally) => tally.inRotation);
  console.log(JSON.stringify({ soak: 'publish', publishes, seed, ...both, inRotation }));
  if (!isSound(both)) process.exitCode = 1;
}

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-soak-publish-'));
try {
  await main(scratch);
} catch (error) {
  console.error(`soak:publish: ${messageOf(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
