/** A registry, an inbox and tools that train and evaluate nothing: what a challenger is worth is told beforehand. */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import type { PolicyEvaluation } from '../../eval/evaluate-policy.ts';
import type { HistoryRecord } from './records.ts';
import { readHistory, registryAt } from './registry.ts';
import { retrain } from './retrain.ts';
import type { RetrainEnd, RetrainOptions, RetrainTools } from './work.ts';

const HELD_OUT = 20;

export interface Place {
  root: string;
  config: Config;
  registry: ReturnType<typeof registryAt>;
  /** Puts pairs `from` to `to` (exclusive) into the inbox, as one file. */
  put(from: number, to: number): void;
}

/** A folder with data, an empty inbox and a configuration; `change` sets keys of it. */
export function newPlace(change: string[] = [], root = mkdtempSync(join(tmpdir(), 'lexpo-retrain-'))): Place {
  const write = (name: string, lines: object[]) =>
    writeFileSync(join(root, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  mkdirSync(join(root, 'inbox'), { recursive: true });
  const questions = (name: string, n: number) =>
    Array.from({ length: n }, (_, i) => ({ id: `${name}${i}`, query: `问题 ${name} ${i}`, gold: ['a1'] }));
  write('corpus.jsonl', [{ id: 'a1', title: '第一条', text: '押金应当退还。' }]);
  write('train.jsonl', questions('t', 3));
  write('validation.jsonl', questions('v', HELD_OUT));
  const yaml = {
    run: { name: 'nightly', dir: join(root, 'runs') },
    model: { path: join(root, 'model') },
    data: {
      corpus: join(root, 'corpus.jsonl'),
      train: join(root, 'train.jsonl'),
      validation: join(root, 'validation.jsonl'),
    },
    sft: {},
    train: { steps: 3 },
    retrain: { inbox: join(root, 'inbox'), registry: join(root, 'registry'), minNewPairs: 2 },
  };
  const config = parseConfig(JSON.stringify(yaml), 'place', { set: change });
  return {
    root,
    config,
    registry: registryAt(join(root, 'registry')),
    put: (from, to) => write(`inbox/${String(from).padStart(3, '0')}.jsonl`, questions('n', to).slice(from)),
  };
}

export interface Fakes extends RetrainTools {
  lines: string[];
  /** Configurations that were trained. */
  trained: Config[];
  /** Adapters that were evaluated, by name; null: the base model. */
  evaluated: (string | null)[];
}

/** Every question of an adapter has the recall that `worth` gives for its name (null: the base model). */
export function fakeTools(worth: (name: string | null) => number, change: Partial<RetrainTools> = {}): Fakes {
  const lines: string[] = [];
  const trained: Config[] = [];
  const evaluated: (string | null)[] = [];
  return {
    lines,
    trained,
    evaluated,
    async train(config) {
      trained.push(config);
      const folder = join(config.run.dir, config.run.name, 'adapters', `${config.run.name}-v3`);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ of: config.run.name }));
      writeFileSync(join(folder, 'adapter_model.safetensors'), config.run.name);
      return folder;
    },
    async evaluate(config, adapter) {
      const name = adapter === null ? null : basename(adapter);
      evaluated.push(name);
      const ids = readFileSync(config.data.validation, 'utf8').trim().split('\n');
      return evaluation(
        ids.map((line) => (JSON.parse(line) as { id: string }).id),
        worth(name),
      );
    },
    serving: () => null,
    now: () => new Date('2026-12-01T03:00:00Z'),
    host: 'here',
    log: (line) => void lines.push(line),
    ...change,
  };
}

function evaluation(ids: string[], recall: number): PolicyEvaluation {
  const perQuestion = ids.map((queryId) => ({
    queryId,
    ranked: [],
    rounds: 1,
    invalid: false,
    recall,
    mrr: recall,
    ndcg: recall,
  }));
  return {
    recall,
    mrr: recall,
    ndcg: recall,
    invalidRate: 0,
    meanRounds: 1,
    meanPool: 0,
    failed: 0,
    perQuestion,
  };
}

/** One job; its line in the history, or the word `interrupted`. */
export async function runJob(
  { config }: Place,
  tools: RetrainTools,
  change: Partial<RetrainOptions> = {},
): Promise<HistoryRecord | 'interrupted'> {
  const { signal } = new AbortController();
  const options: RetrainOptions = { config, trigger: 'schedule', fresh: false, signal, ...change };
  const end: RetrainEnd = await retrain(options, tools);
  return end.kind === 'ended' ? end.record : end.kind;
}

export const kindsOf = ({ registry }: Place): string[] => readHistory(registry).map(({ kind }) => kind);

/** What an adapter is worth, by its name; `base` for the base model. */
export const worthOf =
  (values: Record<string, number>) =>
  (name: string | null): number =>
    values[name ?? 'base'] ?? 0;

/** The first job's adapter. */
export const CHAMPION = 'nightly-20261201-1-v3';
