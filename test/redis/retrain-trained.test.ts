import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import { type PolicyServer, startServer } from '../../src/serve/server.ts';
import { currentChampion, readHistory, registryAt } from '../../src/trainer/retrain/registry.ts';
import { setSchedule, workSchedules } from '../../src/trainer/retrain/schedule.ts';
import { retrainTools } from '../../src/trainer/retrain/tools.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-retrained-'));
const CRON = '*/2 * * * * *';
let server: RedisServer;
/** Answers users of the champion. */
let serving: PolicyServer;
const children: ChildProcess[] = [];
beforeAll(async () => {
  if (!hasRedis) return;
  server = await startRedis();
  const adapterRoot = join(scratch, 'champions', 'champions');
  mkdirSync(adapterRoot, { recursive: true });
  serving = await startServer({ modelFolder: 'models/tiny', adapterRoot, threads: 1 });
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await serving?.close();
  await server?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

/** Lines `from` to `to` (exclusive) of a file of the demo, as a file here. */
function lines(source: string, from: number, to: number, name: string): string {
  const all = readFileSync(join('data/demo', source), 'utf8').trim().split('\n');
  mkdirSync(join(scratch, 'inbox'), { recursive: true });
  writeFileSync(join(scratch, name), `${all.slice(from, to).join('\n')}\n`);
  return join(scratch, name);
}

/** Without a sign of life for so long a worker counts as dead. */
const LOCK_MS = 2_000;

const url = (name: string) => JSON.stringify(new URL(`../../src/${name}`, import.meta.url).href);
const WORKER = `
  const { openRedis } = await import(${url('rollout/pool/redis-connection.ts')});
  const { workSchedules } = await import(${url('trainer/retrain/schedule.ts')});
  const { retrainTools } = await import(${url('trainer/retrain/tools.ts')});
  const screen = { print() {}, start: () => ({ update() {}, end() {} }) };
  const [address, lockMs] = process.argv.slice(1);
  const redis = await openRedis({ url: address, prefix: 'lexpo' }, { withinMs: 10_000, say() {} });
  const tools = retrainTools(screen, () => new Date());
  const { signal } = new AbortController();
  await workSchedules({ redis, prefix: 'lexpo', tools, lockMs: Number(lockMs), signal, onEnd() {} });
`;

/** A worker as a process of its own. */
function spawnWorker(): ChildProcess {
  const args = ['--import', 'tsx', '--input-type=module', '-e', WORKER, server.url, String(LOCK_MS)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  children.push(child);
  return child;
}

async function until(isTime: () => boolean): Promise<void> {
  while (!isTime()) await sleep(20);
}

describe.skipIf(!hasRedis)('jobs on the tiny model, fired by their pattern', () => {
  test('a better challenger is promoted, though its worker is killed in training; a worse one is refused', {
    timeout: 300_000,
  }, async () => {
    const settings = [
      `run.dir=${join(scratch, 'runs')}`,
      `data.train=${lines('train.jsonl', 0, 3, 'train.jsonl')}`,
      `data.validation=${lines('validation.jsonl', 0, 40, 'validation.jsonl')}`,
      `retrain.inbox=${join(scratch, 'inbox')}`,
      `retrain.registry=${join(scratch, 'champions')}`,
      `retrain.redis.url=${server.url}`,
      `retrain.serve={replicas: [{url: '${serving.url}'}]}`,
      'retrain.minNewPairs=1',
      'sft.share=1',
      'sft.rolloutsPerQuery=1',
      'sft.epochs=4',
      'rollout.queriesPerStep=3',
      'rollout.groupSize=4',
      'optimizer.warmupSteps=0',
      'train.steps=2',
      'train.checkpointEvery=1',
      'train.evalEvery=100',
      'eval.queries=1',
    ];
    const useful = loadConfig('configs/nightly.yaml', { set: [...settings, 'optimizer.learningRate=1e-4'] });
    const ruinous = loadConfig('configs/nightly.yaml', { set: [...settings, 'optimizer.learningRate=0.5'] });
    const registry = registryAt(join(scratch, 'champions'));
    const ends = () => readHistory(registry).filter(({ kind }) => kind === 'promoted' || kind === 'refused');
    const store = {
      redis: await openRedis({ url: server.url, prefix: 'lexpo' }, { withinMs: 10_000, say: () => {} }),
      prefix: 'lexpo',
    };
    lines('train.jsonl', 24, 90, 'inbox/a.jsonl');
    await setSchedule(store, useful, { cron: CRON, tz: 'UTC' });

    // Killed when the first step of the training run is a checkpoint.
    const dying = spawnWorker();
    const gone = once(dying, 'exit');
    const runs = () => (existsSync(join(scratch, 'runs')) ? readdirSync(join(scratch, 'runs')) : []);
    const checkpoints = () =>
      runs().flatMap((run) => {
        const folder = join(scratch, 'runs', run, 'checkpoints');
        return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')) : [];
      });
    await until(() => checkpoints().length > 0 || dying.exitCode !== null);
    dying.kill('SIGKILL');
    expect(await gone).toEqual([null, 'SIGKILL']);
    expect(readHistory(registry)).toEqual([]);
    expect(currentChampion(registry)).toBe(null);

    const told: string[] = [];
    const screen = {
      print: (text: string) => void told.push(text),
      start: () => ({ update() {}, end() {} }),
    };
    const controller = new AbortController();
    const working = workSchedules({
      ...store,
      tools: retrainTools(screen, () => new Date()),
      lockMs: LOCK_MS,
      signal: controller.signal,
      onEnd: () => {},
    });
    try {
      await until(() => ends().length === 1);
      const [first] = ends();
      expect(first).toMatchObject({ kind: 'promoted', before: null, pairs: { train: 66, refused: 0 } });
      expect(runs()).toHaveLength(1);
      expect(told).toContain(`going on with ${runs()[0]}, at: train`);
      expect(told).toContain(`resuming ${runs()[0]} after step 1`);
      const champion = currentChampion(registry);
      expect(champion).toBe(first!.after);
      expect(first!.figures!.challenger).toBeGreaterThan(first!.figures!.champion);
      const trained = join(scratch, 'runs', runs()[0]!, 'adapters', champion!, 'adapter_model.safetensors');
      const kept = join(registry.champions, champion!, 'adapter_model.safetensors');
      expect(readFileSync(kept).equals(readFileSync(trained))).toBe(true);
      expect(told).toContain(`${champion} is served and proved on 1 server`);
      const served = async () => (await (await fetch(`${serving.url}/v1/models`)).text()).includes(champion!);
      expect(await served()).toBe(true);

      await setSchedule(store, ruinous, { cron: CRON, tz: 'UTC' });
      // Jobs of the first schedule that still wait must not take these pairs.
      await sleep(2_500);
      lines('train.jsonl', 100, 103, 'inbox/b.jsonl');
      await until(() => ends().length === 2);
      expect(ends()[1]).toMatchObject({ kind: 'refused', before: champion, after: champion });
      expect(ends()[1]!.figures!.challenger).toBeLessThan(ends()[1]!.figures!.champion);
      expect(currentChampion(registry)).toBe(champion);
      expect(await served()).toBe(true);
    } finally {
      controller.abort();
      await working;
      store.redis.disconnect();
    }
  });
});
