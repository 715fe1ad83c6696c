import { describe, expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import type { QuestionOutcome } from '../../eval/evaluate-policy.ts';
import { decide, type PromoteRule } from './decide.ts';

const rule: PromoteRule = {
  metric: 'recall',
  rule: 'interval-above',
  minGain: 0,
  confidence: 0.95,
  bootstrap: 4000,
};
const outcome = (i: number, recall: number, mrr = 0): QuestionOutcome => ({
  queryId: `q${i}`,
  ranked: [],
  rounds: 1,
  invalid: false,
  recall,
  mrr,
  ndcg: 0,
});
const evaluation = (recalls: number[], mrrs: number[] = []) => ({
  perQuestion: recalls.map((recall, i) => outcome(i, recall, mrrs[i])),
});
const by = (change: Partial<PromoteRule>, before: number[], after: number[]) =>
  decide(evaluation(before), evaluation(after), { ...rule, ...change }, 10, stream(1, 'decide'));

/** 40 questions: the challenger wins `won` by 0.5 and loses `lost` by 0.5. */
function games(won: number, lost: number): [number[], number[]] {
  const before = Array.from({ length: 40 }, (_, i) => (i < won ? 0 : 0.5));
  const after = before.map((x, i) => (i < won ? 0.5 : i < won + lost ? x - 0.5 : x));
  return [before, after];
}

describe('promotion', () => {
  test('by the interval: a clear gain yes, a thin one no, though its mean is above 0', () => {
    const clear = by({}, ...games(12, 0));
    // Mean 0.15; the deviation is 0.5 √(0.3 · 0.7), so the interval is about 0.15 ± 1.96 · 0.229 / √40.
    expect(clear.promote).toBe(true);
    expect(clear.figures.gain.mean).toBeCloseTo(0.15, 10);
    expect(clear.figures.gain.low).toBeCloseTo(0.079, 1);
    const thin = by({}, ...games(4, 2));
    expect(thin.figures.gain.mean).toBeCloseTo(0.025, 10);
    expect(thin.promote).toBe(false);
    expect(thin.why).toContain('the interval is not above 0');
    expect(by({ rule: 'mean-above' }, ...games(4, 2)).promote).toBe(true);
  });

  test('never for the same, nor for a worse one, by any rule', () => {
    for (const kind of ['interval-above', 'mean-above'] as const) {
      expect(by({ rule: kind }, ...games(0, 0)).promote).toBe(false);
      expect(by({ rule: kind }, ...games(2, 4)).promote).toBe(false);
    }
  });

  test('minGain is to be exceeded, not reached', () => {
    const [before, after] = [Array(10).fill(0.25), Array(10).fill(0.5)];
    expect(by({ minGain: 0.25 }, before, after).promote).toBe(false);
    expect(by({ minGain: 0.2499 }, before, after).promote).toBe(true);
  });

  test('confidence decides a case between', () => {
    const between = games(9, 2);
    expect(by({ confidence: 0.6 }, ...between).promote).toBe(true);
    expect(by({ confidence: 0.999 }, ...between).promote).toBe(false);
  });

  test('the metric is the one that the rule names', () => {
    const champion = evaluation([1, 1, 1], [0, 0, 0]);
    const challenger = evaluation([0, 0, 0], [1, 1, 1]);
    const on = (metric: 'recall' | 'mrr') =>
      decide(champion, challenger, { ...rule, metric }, 10, stream(1, 'm'));
    expect(on('recall').promote).toBe(false);
    expect(on('mrr')).toMatchObject({
      promote: true,
      figures: { metric: 'mrr', champion: 0, challenger: 1 },
    });
  });

  test('an answer is judged as such, and a rollout without one is wrong', () => {
    const { perQuestion } = evaluation([0, 0, 0]);
    const answered = perQuestion.map((q) => ({ ...q, answer: { answerAccuracy: 1, evidenceRecall: 0.5 } }));
    const challenger = { perQuestion: [...answered.slice(0, 2), perQuestion[2]!] };
    const on = { ...rule, rule: 'mean-above' as const, metric: 'answerAccuracy' as const };
    const { promote, figures, why } = decide({ perQuestion }, challenger, on, 10, stream(1, 'm'));
    expect(promote).toBe(true);
    expect([figures.champion, figures.challenger]).toEqual([0, 2 / 3]);
    expect(why).toMatch(/^answerAccuracy 0\.000 → 0\.667/);
  });

  test('other questions, or another order, are not compared', () => {
    const two = evaluation([0, 1]);
    expect(() => decide(two, { perQuestion: [...two.perQuestion].reverse() }, rule, 10, stream(1))).toThrow();
    expect(() => decide(two, evaluation([0]), rule, 10, stream(1))).toThrow(/different questions/);
  });
});
