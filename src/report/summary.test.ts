import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Summary, summarySchema, writeSummary } from './summary.ts';

const policy = { recall: 0.5, mrr: 0.4, ndcg: 0.45, invalidRate: 0.01, meanRounds: 2.5, meanPool: 17 };
const summary: Summary = {
  steps: 12,
  seconds: 34.5,
  eval: {
    singlePass: { recall: 0.3, mrr: 0.2, ndcg: 0.25 },
    before: policy,
    after: { ...policy, recall: 0.6 },
  },
  adapter: 'runs/demo/adapters/demo-v12',
  standIns: [],
  memory: { planned: 7e8, peak: 6e8 },
};
const path = join(mkdtempSync(join(tmpdir(), 'lexpo-summary-')), 'summary.json');

test('has exactly the agreed keys, the metrics named by k', async () => {
  await writeSummary(path, summary, 10);
  const json: unknown = JSON.parse(readFileSync(path, 'utf8'));
  const after = {
    'recall@10': 0.6,
    'mrr@10': 0.4,
    'ndcg@10': 0.45,
    invalidRate: 0.01,
    meanRounds: 2.5,
    meanPool: 17,
  };
  expect(json).toEqual({
    steps: 12,
    seconds: 34.5,
    eval: {
      singlePass: { 'recall@10': 0.3, 'mrr@10': 0.2, 'ndcg@10': 0.25 },
      before: { ...after, 'recall@10': 0.5 },
      after,
    },
    adapter: 'runs/demo/adapters/demo-v12',
    memory: { planned: 7e8, peak: 6e8 },
  });
  expect(summarySchema(10).safeParse(json).success).toBe(true);
  expect(summarySchema(5).safeParse(json).success).toBe(false);
});

test('a figure out of range is never written', async () => {
  const broken = { ...summary, eval: { ...summary.eval, after: { ...policy, recall: Number.NaN } } };
  await expect(writeSummary(path, broken, 10)).rejects.toThrow();
  const above = { ...summary, eval: { ...summary.eval, singlePass: { recall: 1.1, mrr: 0, ndcg: 0 } } };
  await expect(writeSummary(path, above, 10)).rejects.toThrow();
  expect(readFileSync(path, 'utf8')).toContain('"recall@10": 0.6');
});
