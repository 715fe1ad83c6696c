import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseConfig } from '../../config/load.ts';
import { readRun } from './read-run.ts';

const TEXT = `run: {name: demo}
model: {path: models/tiny}
data: {corpus: c.jsonl, train: t.jsonl, validation: v.jsonl}
train: {steps: 4}
`;

test('a run whose end was moved by train.steps is not finished before it is there', () => {
  const dir = mkdtempSync(join(tmpdir(), 'lexpo-status-'));
  const state = (steps: number) =>
    readRun(parseConfig(TEXT, 'x.yaml', { set: [`run.dir=${dir}`, `train.steps=${steps}`] }), 0).state;
  expect(state(4)).toBe('absent');
  mkdirSync(join(dir, 'demo'));
  writeFileSync(join(dir, 'demo', 'config.json'), '{}');
  writeFileSync(join(dir, 'demo', 'metrics.jsonl'), '{"step":4,"reward/mean":1}\n');
  expect(state(4)).toBe('stopped');
  writeFileSync(join(dir, 'demo', 'summary.json'), '{}');
  expect(state(4)).toBe('finished');
  expect(state(6)).toBe('stopped');
});
