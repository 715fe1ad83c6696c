import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { corpusOf } from '../env/corpus.ts';
import type { Query } from '../env/types.ts';
import { createEnvironment } from './environment.ts';
import { type ReportInput, reportRun, singlePass } from './final-report.ts';
import type { Model } from './prepare.ts';
import { runFolder, writeEvaluation } from './run-folder.ts';
import { configOf, newRun, play, root, train, validation } from './test-support-loop.ts';

const corpus = corpusOf(
  [1, 2, 3, 4, 5, 6, 7].map((i) => ({ id: `a${i}`, title: `第${i}条`, text: `文${i}` })),
);
/** The last two held-out questions have gold that no training question has. */
const seen: Query[] = train.slice(0, 4);

/** A table run of `steps` with its evaluations in its folder, and what the report needs of it. */
async function finishedRun(steps: number, change: object): Promise<ReportInput> {
  const config = configOf(steps, { run: { dir: root }, ...change });
  const folder = runFolder(config);
  const run = newRun(config, {
    folder: join('run', 'adapters'),
    parts: () => ({ onEvaluation: (step, evaluation) => writeEvaluation(folder, step, evaluation) }),
  });
  const end = await play(run);
  const data = { corpus, train: seen, validation };
  const environment = createEnvironment(config, { corpus });
  const baseline = singlePass(environment, validation, config);
  const { context, signal } = run.parts;
  const { replicas } = run;
  return { config, data, model: {} as Model, environment, context, replicas, folder, end, baseline, signal };
}

describe('reportRun', () => {
  it('compares the chosen adapter with the start, on all questions and on those with unseen gold', async () => {
    const input = await finishedRun(20, {
      train: { evalEvery: 5 },
      eval: { k: 1, samples: 3, bootstrap: 200 },
    });
    const { report, table } = await reportRun(input);
    expect(JSON.parse(readFileSync(input.folder.report, 'utf8'))).toEqual(JSON.parse(JSON.stringify(report)));
    expect(report.adapter).toBe(join(input.folder.adapters, input.end.best!.adapter));
    expect(report.after.recall).toBe(1);
    expect(report.before.recall).toBeLessThan(0.5);
    expect(report.sampled!.after).toHaveLength(3);
    const gain = (what: string) => report.comparisons.find((c) => c.what === what && c.over === 'before')!;
    expect(gain('after')).toMatchObject({ questions: 6, gain: { mean: 1 - report.before.recall } });
    const unseen = [4, 5].map((i) => 1 - report.before.perQuestion[i]!.recall);
    expect(gain('after (unseen gold)')).toMatchObject({ questions: 2 });
    expect(gain('after (unseen gold)').gain.mean).toBeCloseTo((unseen[0]! + unseen[1]!) / 2, 12);
    expect(table).toContain(`after (step ${report.chosenStep})`);
  });

  it('ends before its next evaluation when the signal fires, and writes nothing', async () => {
    const controller = new AbortController();
    const reason = new Error('interrupted');
    const input = { ...(await finishedRun(2, { eval: { k: 1, samples: 5 } })), signal: controller.signal };
    let asked = 0;
    const context = {
      ...input.context,
      runEpisode: (...args: Parameters<typeof input.context.runEpisode>) => {
        if (++asked === validation.length + 1) controller.abort(reason);
        return input.context.runEpisode(...args);
      },
    };
    await expect(reportRun({ ...input, context })).rejects.toBe(reason);
    expect(asked).toBe(2 * validation.length);
    expect(existsSync(input.folder.report)).toBe(false);
  });
});
