/**
 * `npm run bench:publish`: how long a publication takes, part by part, for an adapter of the size of Qwen3-4B's at
 * r = 32 on all seven projections, to a server that reads and hashes the whole file. docs/publish.md has the
 * figures. The last line is one JSON object: p50 and p95 in milliseconds.
 *
 * Options: `--publishes N` (default 20), `--replicas N` (default 1; each a process of its own).
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf } from '../src/base/errors.ts';
import { stream } from '../src/base/random.ts';
import type { DecoderConfig } from '../src/engine/model-config.ts';
import { LORA_MODULES, loraTensorShapes } from '../src/engine/peft.ts';
import type { Adapter, LoraSpec } from '../src/engine/types.ts';
import { createEndpoint, type Endpoint } from '../src/rollout/endpoint.ts';
import { createReplicas, systemTimer } from '../src/rollout/replicas.ts';
import type { Learner } from '../src/trainer/learner/learner.ts';
import { publish } from '../src/trainer/publish.ts';
import { logprobsOf, PROBE } from './bench-publish/fingerprint.ts';

const QWEN3_4B = {
  layers: 36,
  hiddenSize: 2560,
  intermediateSize: 9728,
  heads: 32,
  kvHeads: 8,
  headDim: 128,
} as DecoderConfig;
const SPEC: LoraSpec = { r: 32, alpha: 64, rslora: false, targets: [...LORA_MODULES] };
const PARTS = ['write', 'load', 'prove', 'total'] as const;
type Times = Record<(typeof PARTS)[number], number>;

function randomAdapter(): Adapter {
  const random = stream(1, 'bench-publish');
  const tensors: Adapter['tensors'] = new Map();
  for (const [name, shape] of loraTensorShapes(QWEN3_4B, SPEC)) {
    const data = Float32Array.from({ length: shape[0] * shape[1] }, () => 0.02 * random.next() - 0.01);
    tensors.set(name, { shape: [...shape], data });
  }
  return { spec: SPEC, tensors };
}

/** The next version of it: other values, no new memory. */
function move({ tensors }: Adapter, version: number): void {
  for (const { data } of tensors.values())
    for (let i = version % 64; i < data.length; i += 64) data[i]! += 1e-3;
  const first = tensors.values().next().value!;
  first.data[0]! += 0.1;
}

/** Tells log-probabilities only. What a learner needs for them is not part of the measurement. */
function learnerOf({ tensors }: Adapter): Learner {
  const never = (): never => {
    throw new Error('nothing is trained here');
  };
  return {
    async rowValues(batch, weights) {
      const logprobs = Float32Array.from(logprobsOf(weights === 'base' ? null : tensors));
      if (batch.targetId.length !== logprobs.length) throw new Error('the probe is not the only sample');
      return { logprobs, entropies: new Float32Array(logprobs.length) };
    },
    accumulate: never,
    update: never,
    freezeReference: never,
    state: never,
    async close() {},
  };
}

async function startServer(): Promise<{ child: ChildProcess; url: string }> {
  const child = fork(fileURLToPath(new URL('./bench-publish/file-server.ts', import.meta.url)));
  const [port] = (await once(child, 'message')) as [number];
  return { child, url: `http://127.0.0.1:${port}` };
}

async function bench(publishes: number, count: number, scratch: string): Promise<void> {
  const servers = await Promise.all(Array.from({ length: count }, startServer));
  let loadedAt = 0;
  let provedAt = 0;
  const watched = (endpoint: Endpoint): Endpoint => ({
    ...endpoint,
    async loadAdapter(...args) {
      await endpoint.loadAdapter(...args);
      loadedAt = performance.now();
    },
    async promptLogprobs(...args) {
      const logprobs = await endpoint.promptLogprobs(...args);
      provedAt = performance.now();
      return logprobs;
    },
  });
  const replicas = createReplicas({
    replicas: servers.map(({ url }) => ({
      name: url,
      adapterRoot: null,
      endpoint: watched(createEndpoint({ baseUrl: url, deadlineMs: 120_000, maxConcurrent: 4 })),
    })),
    deadlineMs: 120_000,
    maxConcurrent: 4,
    onPartialFailure: 'keep-old',
    tolerance: 1e-4,
    healthEveryMs: 600_000,
    timer: systemTimer,
    say: console.log,
  });
  let installedAt = 0;
  const target = {
    adapterRoot: scratch,
    runName: 'bench',
    baseModel: 'Qwen/Qwen3-4B',
    probeIds: PROBE,
    replicas: {
      install(adapter: Parameters<typeof replicas.install>[0]) {
        installedAt = performance.now();
        return replicas.install(adapter);
      },
    },
  };
  try {
    const adapter = randomAdapter();
    const learner = learnerOf(adapter);
    const measured: Times[] = [];
    let bytes = 0;
    // The first one warms up.
    for (let version = 0; version <= publishes; version++) {
      move(adapter, version);
      const began = performance.now();
      const { model } = await publish(target, learner, adapter, version);
      const total = performance.now() - began;
      const [write, load] = [installedAt - began, loadedAt - installedAt];
      if (version > 0) measured.push({ write, load, prove: provedAt - loadedAt, total });
      bytes = statSync(join(scratch, model, 'adapter_model.safetensors')).size;
      rmSync(join(scratch, `bench-v${version - 1}`), { recursive: true, force: true });
    }
    tell(adapter, bytes, measured, count);
  } finally {
    await replicas.close();
    for (const { child } of servers) child.disconnect();
  }
}

function tell(adapter: Adapter, bytes: number, measured: readonly Times[], replicas: number): void {
  const parameters = [...adapter.tensors.values()].reduce((sum, { data }) => sum + data.length, 0);
  const figures = Object.fromEntries(
    PARTS.map((part) => {
      const sorted = measured.map((one) => one[part]).sort((a, b) => a - b);
      const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1]!;
      return [part, { p50: Math.round(at(0.5)), p95: Math.round(at(0.95)) }];
    }),
  );
  console.log(`${(parameters / 1e6).toFixed(1)} M parameters, ${(bytes / 1e6).toFixed(0)} MB of F32`);
  for (const [part, { p50, p95 }] of Object.entries(figures))
    console.log(`${part.padEnd(6)} p50 ${String(p50).padStart(6)} ms   p95 ${String(p95).padStart(6)} ms`);
  const perSecond = (ms: number): number => Math.round(bytes / 1e3 / ms);
  const speeds = {
    writeMBs: perSecond(figures.write!.p50),
    loadMBs: perSecond(figures.load!.p50),
    totalMBs: perSecond(figures.total!.p50),
  };
  const setting = { publishes: measured.length, replicas, parameters, bytes, dtype: 'F32' };
  console.log(JSON.stringify({ bench: 'publish', ...setting, ms: figures, ...speeds }));
}

const scratch = mkdtempSync(join(tmpdir(), 'lexpo-bench-publish-'));
try {
  const { values } = parseArgs({
    options: {
      publishes: { type: 'string', default: '20' },
      replicas: { type: 'string', default: '1' },
    },
  });
  const [publishes, replicas] = [Number(values.publishes), Number(values.replicas)];
  if (![publishes, replicas].every((n) => Number.isInteger(n) && n > 0))
    throw new Error('--publishes and --replicas are positive whole numbers');
  await bench(publishes, replicas, scratch);
} catch (error) {
  console.error(`bench:publish: ${messageOf(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
