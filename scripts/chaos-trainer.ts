/**
 * `npm run chaos:trainer`: a small training of the demo is killed with SIGKILL at 50 random moments and resumed
 * each time. Every adapter, the metrics and the summary have to be those of the undisturbed run, byte for byte
 * where they are bytes. The last line is one JSON object. Options: `--kills N`, `--seed N` of the moments.
 *
 * A moment is drawn evenly over the time that a run needs to start and to take three steps, so that kills fall
 * into loading, the warm start, sampling, learning, publishing and the writing of checkpoints. A run that gets to
 * its end before all kills are used up is compared, and the next one begins.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { messageOf } from '../src/base/errors.ts';
import { stream } from '../src/base/random.ts';
import {
  adapterBytes,
  isFinished,
  metricsOf,
  newestCheckpoint,
  startRun,
  summaryOf,
} from '../test/test-support-run.ts';
import { wholeOptions } from './whole-options.ts';

const STEPS = 16;
const SETTINGS = [`train.steps=${STEPS}`, `train.evalEvery=${STEPS / 2}`];
/** Steps that the time of a moment spans. */
const SPAN_STEPS = 3;

/** Runs to its end, or until `killAfterMs`; the seconds until each step was seen checkpointed. */
async function run(dir: string, killAfterMs: number | null): Promise<{ killed: boolean; stepAt: number[] }> {
  const started = performance.now();
  const child = startRun(dir, SETTINGS, '--resume');
  let errors = '';
  child.stderr!.on('data', (chunk: Buffer) => {
    errors += chunk;
  });
  child.stdout!.resume();
  const stepAt: number[] = [];
  const watch = setInterval(() => {
    while (stepAt.length < newestCheckpoint(dir)) stepAt.push(performance.now() - started);
  }, 10);
  const kill = killAfterMs === null ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs);
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  clearTimeout(kill);
  clearInterval(watch);
  if (signal === 'SIGKILL') return { killed: true, stepAt };
  if (code !== 0) throw new Error(`the run ended with exit code ${code}: ${errors.trim()}`);
  return { killed: false, stepAt };
}

/** What differs from the undisturbed run, in words; nothing if it is the same. */
function differences(dir: string, whole: string): string[] {
  const versions = Array.from({ length: STEPS + 1 }, (_, version) => version);
  const adapters = versions.filter((v) => !adapterBytes(dir, v).equals(adapterBytes(whole, v)));
  return [
    ...adapters.map((version) => `adapter v${version}`),
    ...(isDeepStrictEqual(metricsOf(dir), metricsOf(whole)) ? [] : ['metrics']),
    ...(isDeepStrictEqual(summaryOf(dir), summaryOf(whole)) ? [] : ['summary']),
  ];
}

async function chaos(kills: number, seed: number, scratch: string): Promise<void> {
  const random = stream(seed, 'chaos-trainer');
  const whole = join(scratch, 'whole');
  console.log(`the undisturbed run: ${STEPS} steps`);
  const { stepAt } = await run(whole, null);
  const perStep = (stepAt.at(-1)! - stepAt[0]!) / (STEPS - 1);
  const span = stepAt[0]! + SPAN_STEPS * perStep;
  const killedAt = { beforeFirstCheckpoint: 0, later: 0 };
  const different: string[] = [];
  let runs = 0;
  for (let done = 0; done < kills; runs++) {
    const dir = join(scratch, `run-${runs}`);
    while (!isFinished(dir)) {
      const moment = done < kills ? random.next() * span : null;
      const { killed } = await run(dir, moment);
      if (!killed) continue;
      done++;
      const at = newestCheckpoint(dir);
      killedAt[at === 0 ? 'beforeFirstCheckpoint' : 'later']++;
      console.log(`kill ${done}: after ${(moment! / 1000).toFixed(2)} s, newest checkpoint ${at}`);
    }
    const found = differences(dir, whole);
    console.log(
      `run ${runs} is finished: ${found.length === 0 ? 'the same' : `differs in ${found.join(', ')}`}`,
    );
    different.push(...found);
    rmSync(dir, { recursive: true });
  }
  const result = { kills, ...killedAt, runs, steps: STEPS, different: different.length };
  console.log(JSON.stringify({ chaos: 'trainer', seed, ...result }));
  if (different.length > 0) process.exitCode = 1;
}

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-chaos-trainer-'));
try {
  const { kills, seed } = wholeOptions({ kills: 50, seed: 1 });
  await chaos(kills, seed, scratch);
} catch (error) {
  console.error(`chaos:trainer: ${messageOf(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
