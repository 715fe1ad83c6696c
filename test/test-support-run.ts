/** A small training of the demo in a process of its own, and what it leaves: for tests that kill it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The name of the run. */
const NAME = 'same';
const SETTINGS = [
  `run.name=${NAME}`,
  'train.checkpointEvery=1',
  'rollout.queriesPerStep=3',
  'rollout.groupSize=4',
  'eval.queries=6',
  'sft.share=0.02',
  'sft.rolloutsPerQuery=1',
  'sft.epochs=1',
];

/** Starts `lexpo train` below the folder `dir`; `settings`: further `path=value`. */
export function startRun(dir: string, settings: string[], ...flags: string[]): ChildProcess {
  const sets = [...SETTINGS, ...settings, `run.dir=${dir}`].flatMap((set) => ['--set', set]);
  const args = ['bin/lexpo.js', 'train', 'configs/quickstart.yaml', ...sets, ...flags];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The step of the newest whole checkpoint of a run, 0 before the first. */
export function newestCheckpoint(dir: string): number {
  const folder = join(dir, NAME, 'checkpoints');
  if (!existsSync(folder)) return 0;
  return Math.max(0, ...readdirSync(folder).map((name) => Number(/^step-(\d+)$/.exec(name)?.[1] ?? 0)));
}

/** Whether the run has ended with its summary. */
export const isFinished = (dir: string): boolean => existsSync(join(dir, NAME, 'summary.json'));

/** The tensors of a version, as the file that they are. */
export const adapterBytes = (dir: string, version: number): Buffer =>
  readFileSync(join(dir, NAME, 'adapters', `${NAME}-v${version}`, 'adapter_model.safetensors'));

/** The metrics without what a clock says. */
export function metricsOf(dir: string): Record<string, number>[] {
  const lines = readFileSync(join(dir, NAME, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) =>
    Object.fromEntries(
      Object.entries(JSON.parse(line) as Record<string, number>).filter(
        ([name]) => !name.startsWith('time/'),
      ),
    ),
  );
}

/** The summary without what a clock or the machine says. */
export function summaryOf(dir: string): object {
  const text = readFileSync(join(dir, NAME, 'summary.json'), 'utf8');
  const { seconds: _s, memory: _m, adapter: _a, ...rest } = JSON.parse(text) as Record<string, unknown>;
  return rest;
}
