/**
 * `npx tsx scripts/compare-staleness.ts`: the demo, on-policy and with `train.maxStaleness` 1, by several seeds.
 * The two runs of a seed follow each other, the first one in turn, so that what else the machine does meets both.
 * Prints a table and, as its last line, one JSON object. Options: `--seeds N`, `--steps N`, `--staleness N`.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { mean, std } from '../src/base/statistics.ts';
import { formatTable } from '../src/report/tables.ts';
import { wholeOptions } from './whole-options.ts';

interface Outcome {
  seed: number;
  staleness: number;
  /** Wall time of a step: waiting for samples, learning, publishing; mean over the steps after the second. */
  stepSeconds: number;
  waitSeconds: number;
  learnSeconds: number;
  /** recall@10 on all held-out questions. */
  before: number;
  after: number;
  masked: number;
  mismatch: number;
}

async function trainOnce(folder: string, seed: number, staleness: number, steps: number): Promise<Outcome> {
  const name = `seed-${seed}-staleness-${staleness}`;
  const settings = [
    `run.name=${name}`,
    `run.dir=${folder}`,
    `run.seed=${seed}`,
    `train.steps=${steps}`,
    `train.evalEvery=${steps}`,
    `train.maxStaleness=${staleness}`,
  ];
  const sets = settings.flatMap((set) => ['--set', set]);
  const child = spawn(process.execPath, ['bin/lexpo.js', 'train', 'configs/quickstart.yaml', ...sets], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${name} ended with exit code ${code}`);
  const lines = readFileSync(join(folder, name, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const rows = lines.map((line) => JSON.parse(line) as Record<string, number>);
  const later = rows.filter((row) => row['time/rollout'] !== undefined && row.step! > 2);
  const of = (series: string): number => mean(later.flatMap((row) => row[series] ?? []));
  const recalls = rows.flatMap((row) => row['eval/recall'] ?? []);
  const [waitSeconds, learnSeconds] = [of('time/rollout') / 1000, of('time/learn') / 1000];
  return {
    seed,
    staleness,
    stepSeconds: waitSeconds + learnSeconds + of('time/publish') / 1000,
    waitSeconds,
    learnSeconds,
    before: recalls[0]!,
    after: recalls.at(-1)!,
    masked: of('policy/masked'),
    mismatch: of('policy/mismatch'),
  };
}

async function compare(folder: string): Promise<void> {
  const { seeds, steps, staleness } = wholeOptions({ seeds: 3, steps: 60, staleness: 1 });
  if (steps < 3) throw new Error('--steps is 3 at least: the first two are sampled at once');
  execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'inherit' });
  const outcomes: Outcome[] = [];
  for (let seed = 1; seed <= seeds; seed++)
    for (const depth of seed % 2 === 1 ? [0, staleness] : [staleness, 0]) {
      const outcome = await trainOnce(folder, seed, depth, steps);
      console.log(JSON.stringify(outcome));
      outcomes.push(outcome);
    }
  const pairs = Array.from({ length: seeds }, (_, i) => ({
    seed: i + 1,
    on: outcomes.find((one) => one.seed === i + 1 && one.staleness === 0)!,
    off: outcomes.find((one) => one.seed === i + 1 && one.staleness > 0)!,
  }));
  const ratios = pairs.map(({ on, off }) => off.stepSeconds / on.stepSeconds);
  const gains = pairs.map(({ on, off }) => off.after - on.after);
  console.log(
    formatTable(
      [
        'seed',
        'recall@10 before',
        'after, 0',
        `after, ${staleness}`,
        's a step, 0',
        `s a step, ${staleness}`,
        'ratio',
      ],
      pairs.map(({ seed, on, off }, i) => [
        String(seed),
        on.before.toFixed(3),
        on.after.toFixed(3),
        off.after.toFixed(3),
        on.stepSeconds.toFixed(2),
        off.stepSeconds.toFixed(2),
        ratios[i]!.toFixed(2),
      ]),
    ),
  );
  const summary = {
    seeds,
    steps,
    staleness,
    ratio: mean(ratios),
    recallGain: mean(gains),
    recallGainStd: std(gains),
  };
  console.log(JSON.stringify(summary));
}

const folder = mkdtempSync(join(tmpdir(), 'lexpo-staleness-'));
try {
  await compare(folder);
} catch (error) {
  console.error(`compare-staleness: ${messageOf(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
