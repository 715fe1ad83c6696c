import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, relative } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { UserError } from '../base/errors.ts';
import { type Config, configSchema } from '../config/schema.ts';
import { summariseOutcomes } from '../eval/evaluate-policy.ts';
import { trajectorySchema } from '../rollout/trajectory.ts';
import { readEvaluation, runFolder, writeConfig, writeEvaluation, writeTrajectories } from './run-folder.ts';
import { tableTrajectory } from './test-support-rollout.ts';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'lexpo-run-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const configOf = (change: object = {}): Config =>
  configSchema.parse({
    run: { name: 'demo-1', dir },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 3 },
    ...change,
  });

describe('runFolder', () => {
  it('puts everything below runs/<name>, by absolute path, steps sortable by name', () => {
    const { trajectories, evaluation, ...paths } = runFolder(configOf());
    const root = join(dir, 'demo-1');
    const at = (path: string): string => relative(root, path);
    expect(Object.values(paths).every((path) => isAbsolute(path))).toBe(true);
    expect(Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, at(path)]))).toEqual({
      root: '',
      config: 'config.json',
      metrics: 'metrics.jsonl',
      summary: 'summary.json',
      report: 'report.json',
      adapters: 'adapters',
      checkpoints: 'checkpoints',
    });
    expect(at(trajectories(1))).toBe(join('trajectories', 'step-000001.jsonl.gz'));
    expect(at(evaluation(0))).toBe(join('evaluations', 'step-000000.json'));
    expect(isAbsolute(runFolder({ run: { name: 'x', dir: 'runs', seed: 1 } }).root)).toBe(true);
  });
});

describe('the configuration', () => {
  it('comes back as it was resolved, and is the same bytes each time', async () => {
    const config = configOf({
      sft: { epochs: 1.5 },
      reward: { recallAt: 7 },
      loss: { kl: { coef: 0.01 } },
      eval: { anchorSweep: [0, 0.25] },
    });
    const folder = runFolder(config);
    await writeConfig(folder, config);
    const bytes = readFileSync(folder.config);
    const read = configSchema.parse(JSON.parse(bytes.toString()));
    expect(read).toEqual(config);
    await writeConfig(folder, read);
    expect(readFileSync(folder.config).equals(bytes)).toBe(true);
  });
});

describe('what a step leaves', () => {
  it('every trajectory is a line that the schema knows, in order, dropped ones included, exactly as it was', async () => {
    const folder = runFolder(configOf());
    const groups = [0, 1, 2].map((g) =>
      Array.from({ length: g }, (_, member) =>
        tableTrajectory(
          0.1 + 0.2 * member,
          [
            [
              [1, 2],
              [3, 4],
            ],
            [[1], [0]],
          ],
          (_p, out) => out.map((x) => -(x + 1) / 3),
          {
            queryId: `法${g}\u2028`,
            member,
            ...(g === 1 ? { dropReason: 'too few members' } : { advantage: -1 / 3 }),
          },
        ),
      ),
    );
    await writeTrajectories(folder, 12, groups);
    const lines = gunzipSync(readFileSync(folder.trajectories(12)))
      .toString('utf8')
      .trimEnd()
      .split('\n');
    expect(lines.map((line) => trajectorySchema.parse(JSON.parse(line)))).toEqual(groups.flat());
  });

  it('a value that JSON does not have is an error, and leaves no file', async () => {
    const folder = runFolder(configOf());
    const broken = tableTrajectory(Number.NaN, [], () => []);
    await expect(writeTrajectories(folder, 1, [[broken]])).rejects.toThrow(/NaN/);
    expect(existsSync(folder.trajectories(1))).toBe(false);
  });

  it('an evaluation comes back exactly', async () => {
    const folder = runFolder(configOf());
    const evaluation = summariseOutcomes(
      [1 / 3, 0.1 + 0.2, 1].map((recall, i) => ({
        queryId: `q${i}`,
        ranked: ['a', 'b'].slice(0, i),
        rounds: i,
        invalid: i === 1,
        recall,
        mrr: recall / 7,
        ndcg: recall / 3,
      })),
      1,
    );
    await writeEvaluation(folder, 30, evaluation);
    expect(await readEvaluation(folder, 30)).toEqual(evaluation);
    writeFileSync(folder.evaluation(30), '{"recall": 0.5');
    for (const step of [30, 40]) await expect(readEvaluation(folder, step)).rejects.toBeInstanceOf(UserError);
  });
});
