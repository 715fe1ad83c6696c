import { expect, it } from 'vitest';
import type { Query } from '../env/types.ts';
import { type QuestionOutcome, summariseOutcomes } from '../eval/evaluate-policy.ts';
import type { Data } from './prepare.ts';
import { compare, type FinalReport } from './report-comparisons.ts';
import { configOf } from './test-support-loop.ts';

const queries: Query[] = ['q1', 'q2', 'q3', 'q4'].map((id) => ({ id, query: id, gold: ['a1'] }));
const data = { train: queries.slice(0, 1), validation: queries } as Data;

/** Each question's recall, accuracy and evidence recall are `figures`, 0.1 less and half of it. */
const evaluation = (...figures: number[]) =>
  summariseOutcomes(
    figures.map(
      (figure, i): QuestionOutcome => ({
        queryId: `q${i + 1}`,
        ranked: ['a1'],
        rounds: 1,
        invalid: false,
        recall: figure,
        mrr: 0,
        ndcg: 0,
        answer: { answerAccuracy: figure - 0.1, evidenceRecall: figure / 2 },
      }),
    ),
    0,
  );

const report = (change: Partial<FinalReport> = {}): FinalReport => ({
  chosenStep: 1,
  adapter: 'a',
  singlePass: evaluation(0.2, 0.2, 0.2, 0.2),
  before: evaluation(0.3, 0.3, 0.3, 0.3),
  after: evaluation(0.5, 0.7, 0.5, 0.7),
  sampled: {
    samples: 2,
    before: [evaluation(0.2, 0.2, 0.2, 0.2), evaluation(0.4, 0.4, 0.4, 0.4)],
    after: [evaluation(0.4, 0.8, 0.4, 0.8), evaluation(0.6, 0.6, 0.6, 0.6)],
  },
  sweep: [],
  baselines: [],
  comparisons: [],
  standIns: [],
  ...change,
});

it('answers and evidence are compared too, greedy and as the mean of samples, each by its own figure', () => {
  const config = configOf(1, { eval: { k: 1, bootstrap: 200 } });
  const all = compare([report()], data, config);
  const gain = (what: string, over: string) =>
    all.find((one) => one.what === what && one.over === over)!.gain;
  expect(gain('after', 'before').mean).toBeCloseTo(0.3, 12);
  expect(gain('evidence recall after', 'evidence recall before').mean).toBeCloseTo(0.15, 12);
  expect(gain('answer accuracy after', 'answer accuracy before').mean).toBeCloseTo(0.3, 12);
  expect(gain('after, mean sample', 'before, mean sample').mean).toBeCloseTo(0.3, 12);
  const evidence = gain('evidence recall after, mean sample', 'evidence recall before, mean sample');
  expect(evidence.mean).toBeCloseTo(0.15, 12);
  expect(evidence.low).toBeGreaterThanOrEqual(0.1 - 1e-12);
  expect(evidence.high).toBeLessThanOrEqual(0.2 + 1e-12);
  expect(gain('answer accuracy after, mean sample', 'answer accuracy before, mean sample').mean).toBeCloseTo(
    0.3,
    12,
  );
  // A question that failed has no answer, which counts as a wrong one.
  const failed = evaluation(0.5, 0.7, 0.5, 0.7);
  delete failed.perQuestion[1]!.answer;
  const less = compare([report({ after: failed })], data, config);
  expect(less.find(({ what }) => what === 'answer accuracy after')!.gain.mean).toBeCloseTo(0.3 - 0.6 / 4, 12);
});

it('an interval does not depend on what else is compared', () => {
  const config = configOf(1, { eval: { k: 1, bootstrap: 200 } });
  const of = (one: FinalReport) => compare([one], data, config).find(({ what }) => what === 'after');
  const { sampled: _, ...greedy } = report();
  expect(of(greedy)).toEqual(of(report()));
});

it('runs of several seeds count as one, each question with its mean over them, the best weight too', () => {
  const config = configOf(1, {
    eval: { k: 1, bootstrap: 200, anchorSweep: [0.5, 1] },
    retrieval: { anchor: { rewrite: 0.25 } },
  });
  const at = (weight: number, recall: number) => ({
    weight,
    before: evaluation(recall, recall, recall, recall),
    after: evaluation(0, 0, 0, 0),
    sampled: [evaluation(recall, recall, recall, recall)],
  });
  // By itself the first run's start is best at weight 1, the second's at 0.5; on the average it is at 0.5.
  const runs = [
    report({ sweep: [at(0.5, 0.4), at(1, 0.45)] }),
    report({ after: evaluation(0.9, 0.7, 0.9, 0.7), sweep: [at(0.5, 0.6), at(1, 0.2)] }),
  ];
  const all = compare(runs, data, config);
  const gain = (what: string, over: string) =>
    all.find((one) => one.what === what && one.over === over)!.gain;
  expect(gain('after', 'before')).toMatchObject({
    mean: expect.closeTo(0.4),
    low: expect.closeTo(0.4),
    high: expect.closeTo(0.4),
  });
  expect(gain('after', 'before at its best weight (0.5)').mean).toBeCloseTo(0.2);
  expect(gain('after, mean sample', 'before, mean sample at its best weight (0.5)').mean).toBeCloseTo(0.1);
});
