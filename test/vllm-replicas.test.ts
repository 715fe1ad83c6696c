/** Training against two servers: one dies in mid step and is started again, then the other dies. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../src/base/test-support.ts';
import { loadConfig } from '../src/config/load.ts';
import type { Screen } from '../src/report/progress.ts';
import { type PolicyServer, startServer } from '../src/serve/server.ts';
import { evaluateAdapter, inspectQuestion } from '../src/trainer/inspect.ts';
import { runTraining } from '../src/trainer/run.ts';

const scratch = temporaryFolder();

const STEPS = 3;
const adapterRoot = join(scratch, 'runs', 'run', 'adapters');

const serve = (port = 0): Promise<PolicyServer> =>
  startServer({ modelFolder: 'models/tiny', adapterRoot: join(scratch, 'runs'), threads: 1, port });

function configOf(urls: string[], more: string[] = []) {
  const held = join(scratch, 'held.jsonl');
  writeFileSync(
    held,
    `${readFileSync('data/demo/validation.jsonl', 'utf8').split('\n').slice(0, 4).join('\n')}\n`,
  );
  const replicas = urls.map((url) => `{url: "${url}", adapterRoot: "${adapterRoot}"}`).join(', ');
  return loadConfig('configs/quickstart.yaml', {
    set: [
      'run.name=run',
      `run.dir=${join(scratch, 'runs')}`,
      `data.validation=${held}`,
      `train.steps=${STEPS}`,
      'train.evalEvery=3',
      'train.checkpointEvery=2',
      'rollout.queriesPerStep=2',
      'rollout.groupSize=4',
      'rollout.minGroup=2',
      'sft.share=0.02',
      'sft.rolloutsPerQuery=1',
      'sft.epochs=1',
      'optimizer.learningRate=0.002',
      'optimizer.warmupSteps=0',
      `endpoint={kind: vllm, replicas: [${replicas}], logprobs: processed, proofTolerance: 0.002, healthEveryMs: 100}`,
      ...more,
    ],
  });
}

it('trains, loses a server, goes on, and takes it back before the other is lost; eval and rollout work too', {
  timeout: 180_000,
}, async () => {
  mkdirSync(join(scratch, 'runs'));
  const servers = [await serve(), await serve()];
  const config = configOf(servers.map(({ url }) => url));
  const lines: string[] = [];
  let changing: Promise<unknown> = Promise.resolve();
  const restart = async (): Promise<void> => {
    await servers[1]!.close();
    servers[1] = await serve(Number(new URL(servers[1]!.url).port));
  };
  const onStep = (step: number): void => {
    // The next step's rollouts are under way soon after.
    if (step === 1) changing = new Promise((resolve) => setTimeout(resolve, 30)).then(restart);
    // From here on the run can only end if the one that was started again is taken back.
    if (step === 2) changing = Promise.all([changing, servers[0]!.close()]);
  };
  const screen: Screen = {
    print: (line) => void lines.push(line),
    start: (what) => ({ update: (step) => what === 'step' && onStep(step), end: () => {} }),
  };
  try {
    const { signal } = new AbortController();
    expect(await runTraining({ config, resume: false, signal, screen, begin: () => {} })).toBe('finished');
    await changing;
    const [a, b] = servers.map(({ url }) => url) as [string, string];
    const at = (start: string): number => lines.findIndex((line) => line.startsWith(start));
    expect(at(`${b} leaves the rotation`)).toBeGreaterThan(0);
    expect(at(`${b} is back`)).toBeGreaterThan(at(`${b} leaves the rotation`));
    expect(at(`${a} leaves the rotation`)).toBeGreaterThan(0);

    // Every trajectory is by the version before its step, none was lost to the failure.
    const folder = join(scratch, 'runs', 'run', 'trajectories');
    expect(readdirSync(folder)).toHaveLength(STEPS);
    const told = new Set<string>();
    for (const file of readdirSync(folder)) {
      const text = gunzipSync(readFileSync(join(folder, file))).toString();
      const rows = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(rows).toHaveLength(8);
      for (const { adapter, policyVersion, step } of rows) {
        expect(adapter).toBe(`run-v${policyVersion}`);
        expect(policyVersion).toBeLessThan(step);
        told.add(adapter);
      }
    }
    expect(told.size).toBeGreaterThan(2);

    const report = JSON.parse(readFileSync(join(scratch, 'runs', 'run', 'report.json'), 'utf8'));
    const { adapter, after } = report;
    const left = configOf([b]);
    const rows = await evaluateAdapter({ config: left, adapter, baselines: false, log: () => {} });
    expect(rows.at(-1)!.figures).toMatchObject({ recall: after.recall, meanRounds: after.meanRounds });
    const question = {
      queryId: JSON.parse(readFileSync('data/demo/train.jsonl', 'utf8').split('\n')[0]!).id,
    };
    const { results } = await inspectQuestion({
      config: left,
      adapter: null,
      question,
      members: 2,
      log: () => {},
    });
    expect(results.map(({ kind }) => kind)).toEqual(['ok', 'ok']);

    // Nothing is left behind on the server.
    const { data } = (await (await fetch(`${b}/v1/models`)).json()) as { data: unknown[] };
    expect(data).toHaveLength(1);
  } finally {
    await servers[1]!.close();
  }
});
