import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tinyModel } from '../engine/test-support.ts';
import { weightsMark } from '../engine/weights-mark.ts';
import type { Data } from './prepare.ts';
import { readRunInputs, writeRunInputs } from './run-inputs.ts';

test('the files that a run was trained on, by name, hash and count; no paths', async () => {
  const root = mkdtempSync(join(tmpdir(), 'lexpo-inputs-'));
  const model = tinyModel();
  const file = (name: string, text: string): string => {
    writeFileSync(join(root, name), text);
    return join(root, name);
  };
  const data = {
    corpus: file('corpus.jsonl', 'articles'),
    train: file('train.jsonl', 'questions\n'),
    validation: file('held.jsonl', ''),
  };
  const loaded = { corpus: { articles: [1, 2, 3] }, train: [1, 2], validation: [] } as unknown as Data;
  expect(readRunInputs(root)).toBeNull();
  await writeRunInputs(root, { data }, loaded, weightsMark(model));
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
  expect(readRunInputs(root)).toEqual({
    corpus: { file: 'corpus.jsonl', sha256: sha256('articles'), count: 3 },
    train: { file: 'train.jsonl', sha256: sha256('questions\n'), count: 2 },
    validation: { file: 'held.jsonl', sha256: sha256(''), count: 0 },
    baseWeights: weightsMark(model),
  });
  writeFileSync(join(root, 'inputs.json'), '{}');
  expect(() => readRunInputs(root)).toThrow(/inputs.json: corpus/);
  for (const folder of [root, model]) rmSync(folder, { recursive: true });
});
