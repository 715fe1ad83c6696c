import { cpSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { configSchema } from '../config/schema.ts';
import { evaluateAdapter } from './inspect.ts';

const config = configSchema.parse({
  run: { name: 'x' },
  model: { path: 'models/tiny' },
  data: {
    corpus: 'data/demo/statutes.jsonl',
    train: 'data/demo/train.jsonl',
    validation: 'data/demo/validation.jsonl',
  },
  train: { steps: 0 },
});

test('an adapter that is damaged, or of another model, is refused with its own words', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-inspect-'));
  const other = join(folder, 'other');
  cpSync('test/vectors/qwen3-tiny/adapter', other, { recursive: true });
  const failureOf = (adapter: string): Promise<unknown> =>
    evaluateAdapter({ config, adapter, baselines: false, log: () => {} }).catch((error: unknown) => error);
  const misfit = await failureOf(other);
  expect(misfit).toBeInstanceOf(UserError);
  expect(String(misfit)).toContain(`UserError: ${other}: base_model.model.model.layers.0.`);
  expect(String(misfit)).toMatch(/made for another base model/);
  truncateSync(join(other, 'adapter_model.safetensors'), 1000);
  expect(String(await failureOf(other))).toMatch(/adapter_model.safetensors: says that its header/);
  expect(String(await failureOf(folder))).toMatch(/holds no adapter_config.json/);
  rmSync(folder, { recursive: true });
});
