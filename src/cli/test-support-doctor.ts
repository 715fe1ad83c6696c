/** For the tests of `lexpo doctor`: a folder with a small corpus and questions, and runs of the command on it. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect } from 'vitest';
import type { Finding } from './doctor/checklist.ts';
import { doctor, type Machine } from './doctor.ts';
import { captureStreams } from './test-support.ts';

export const TINY = fileURLToPath(new URL('../../models/tiny', import.meta.url));
/** Without a model most checks are skipped, which is fast. */
export const ABSENT = { model: { path: 'none/such' } };
const GB = 2 ** 30;

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lexpo-doctor-'));
  const lines = (name: string, ...rows: object[]) =>
    writeFileSync(join(folder, name), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  lines('corpus.jsonl', { id: 'a1', title: '民法典 第一条', text: '押金应当退还。' });
  lines('train.jsonl', { id: 't1', query: '押金不退怎么办', gold: ['a1'] });
  lines('validation.jsonl', { id: 'v1', query: '房东不退钱', gold: ['a1'] });
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A path in the test's folder; '' is the folder. */
export const file = (name: string): string => join(folder, name);
export const machine: Machine = {
  nodeVersion: '20.0.0',
  freeMemory: () => 64 * GB,
  freeDisk: async () => 64 * GB,
  now: () => 1_700_000_000_000,
};

/** Runs it on a good configuration with these changes, sections by name. */
export async function examine(
  change: Record<string, object> = {},
  set: string[] = [],
  here: Partial<Machine> = {},
) {
  const section = (name: string, values: object) => ({ ...values, ...change[name] });
  const config = {
    ...change,
    run: section('run', { name: 'demo', dir: file('runs') }),
    model: section('model', { path: TINY }),
    data: section('data', {
      corpus: file('corpus.jsonl'),
      train: file('train.jsonl'),
      validation: file('validation.jsonl'),
    }),
    optimizer: section('optimizer', { warmupSteps: 0 }),
    rollout: section('rollout', { queriesPerStep: 1 }),
    lora: section('lora', { r: 4, targets: ['q_proj'] }),
    learner: section('learner', { maxTreeTokens: 256 }),
    train: section('train', { steps: 2 }),
  };
  writeFileSync(file('run.yaml'), JSON.stringify(config));
  return run(file('run.yaml'), set, here);
}

async function run(path: string, set: string[] = [], here: Partial<Machine> = {}) {
  const { streams, said } = captureStreams();
  const code = await doctor(path, { set, json: true }, streams, { ...machine, ...here });
  const { ok, checks } = JSON.parse(said.out) as { ok: boolean; checks: Finding[] };
  expect(said.err).toBe('');
  expect(ok).toBe(code === 0);
  expect(code).toBe(checks.some(({ status }) => status === 'fail') ? 1 : 0);
  for (const { status, detail, hint } of checks) {
    expect(detail).not.toMatch(/\n\s+at /);
    if (status === 'fail' || status === 'warn') expect(hint?.length).toBeGreaterThan(5);
  }
  const statuses = Object.fromEntries(checks.map(({ name, status }) => [name, status]));
  const text = (name: string): string => {
    const { detail, hint } = checks.find((check) => check.name === name)!;
    return `${detail} → ${hint}`;
  };
  return { code, statuses, text };
}

/** A model folder of the test's own. */
export function ownModel(): string {
  cpSync(TINY, file('model'), { recursive: true });
  return file('model');
}
