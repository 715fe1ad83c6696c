/** A run folder as training leaves it, small: two adapters, records, a checkpoint. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { configSchema } from '../../config/schema.ts';
import { writeAdapter } from '../../engine/peft.ts';
import { randomAdapter, tinyModel } from '../../engine/test-support.ts';
import { weightsMark } from '../../engine/weights-mark.ts';

export interface TestRun {
  /** A folder of the test's own. */
  scratch: string;
  root: string;
  base: string;
}

export const SPEC = { r: 4, alpha: 8, rslora: false, targets: ['q_proj', 'v_proj'] };

/** Evaluation of `questions` questions that all have this recall. */
export const evaluationOf = (recall: number, questions = 4) => ({
  recall,
  mrr: recall / 2,
  ndcg: recall / 4,
  invalidRate: 0.25,
  meanRounds: 2,
  meanPool: 10,
  failed: 0,
  perQuestion: Array.from({ length: questions }, () => ({ recall })),
});

export function writeJson(file: string, value: unknown): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(value));
}

/** A finished run of four steps that chose step 2. */
export async function makeRun(change: { run?: object; model?: object } = {}): Promise<TestRun> {
  const scratch = mkdtempSync(join(tmpdir(), 'lexpo-export-'));
  const root = join(scratch, 'runs', 'demo');
  const base = tinyModel();
  const config = configSchema.parse({
    run: { name: 'demo', dir: join(scratch, 'runs'), seed: 5 },
    model: { path: base, ...change.model },
    data: { corpus: '/home/me/laws.jsonl', train: 'a/train.jsonl', validation: 'a/held.jsonl' },
    sft: {},
    lora: SPEC,
    train: { steps: 4 },
    ...change.run,
  });
  writeJson(join(root, 'config.json'), config);
  for (const [seed, name] of ['demo-v0', 'demo-v2', 'demo-v4'].entries())
    await writeAdapter(join(root, 'adapters', name), randomAdapter(base, SPEC, seed), { baseModel: base });
  writeJson(join(root, 'evaluations', 'step-000000.json'), evaluationOf(0.25));
  writeJson(join(root, 'evaluations', 'step-000004.json'), evaluationOf(0.4));
  writeJson(join(root, 'checkpoints', 'step-000002', 'state.json'), { progress: { best: null } });
  writeJson(join(root, 'checkpoints', 'step-000004', 'state.json'), {
    progress: { best: { step: 2, value: 0.5, adapter: 'demo-v2' } },
  });
  writeJson(join(root, 'summary.json'), { steps: 4, adapter: '/elsewhere/adapters/demo-v2' });
  writeJson(join(root, 'report.json'), {
    adapter: '/elsewhere/adapters/demo-v2',
    singlePass: evaluationOf(0.125),
    before: evaluationOf(0.25),
    after: evaluationOf(0.5),
    comparisons: [
      { what: 'after', over: 'before', questions: 4, gain: { mean: 0.25, low: -0.0123, high: 0.5 } },
    ],
  });
  const file = (name: string, count: number) => ({ file: name, sha256: name.repeat(2), count });
  writeJson(join(root, 'inputs.json'), {
    corpus: file('laws.jsonl', 1234),
    train: file('train.jsonl', 77),
    validation: file('held.jsonl', 4),
    baseWeights: weightsMark(base),
  });
  return { scratch, root, base };
}
