/** For the tests of replicas: servers of one base model in memory, and a clock that is set by hand. */
import type { CompletionCall, Endpoint } from './endpoint.ts';
import type { ServedAdapter } from './proof.ts';
import { createReplicas, type Replicas, type ReplicasOptions, type Timer } from './replicas.ts';
import { type FailureReason, RolloutFailure } from './rollout-failure.ts';

interface HandTimer extends Timer {
  /** Runs what is due within the next `ms`, in order; lets promises settle in between. */
  advance(ms: number): Promise<void>;
}

/** Lets everything that waits for promises only go on. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 60; i++) await Promise.resolve();
}

function handTimer(): HandTimer {
  let now = 0;
  let due: { at: number; run: () => void }[] = [];
  return {
    now: () => now,
    after(ms, run) {
      const entry = { at: now + ms, run };
      due.push(entry);
      return () => {
        due = due.filter((other) => other !== entry);
      };
    },
    async advance(ms) {
      const end = now + ms;
      for (;;) {
        await settle();
        const next = due.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (!next) break;
        due = due.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.run();
      }
      now = end;
      await settle();
    },
  };
}

const IDS = [1, 2, 3, 4];
const BASE = [-1, -2, -3];
/** Log-probabilities of the fixed prompt by version: each version lies elsewhere. */
const policyOf = (version: number): number[] => BASE.map((x, i) => x - 0.5 * Math.sin(1 + version * 3 + i));

export const adapterOf = (version: number, folder = '/here/adapters'): ServedAdapter => ({
  version,
  name: `run-v${version}`,
  folder: `${folder}/run-v${version}`,
  proof: { ids: IDS, policy: policyOf(version), base: BASE },
});

/** A server whose state and faults lie open. */
export interface FakeServer {
  endpoint: Endpoint;
  /** Name → folder. */
  loaded: Map<string, string>;
  /** `load run-v1`, `unload run-v1`, `complete run-v1`, in order. */
  log: string[];
  alive: boolean;
  /** Comes before each request of that kind; may throw. */
  faults: Partial<Record<'load' | 'unload' | 'list' | 'health' | 'score' | 'complete', () => unknown>>;
  /** What a name answers with; default: its own version. */
  answersAs(name: string): number[];
  /** Gone and back without its adapters. */
  restart(): void;
}

export const fail =
  (reason: FailureReason, message: string = reason, status?: number) =>
  (): never => {
    throw new RolloutFailure(reason, message, status);
  };

export function fakeServer(): FakeServer {
  const loaded = new Map<string, string>();
  const log: string[] = [];
  const ask = async (kind: keyof FakeServer['faults']): Promise<void> => {
    await Promise.resolve();
    if (!server.alive) throw new RolloutFailure('connection', 'ECONNREFUSED');
    await server.faults[kind]?.();
  };
  const known = (name: string): void => {
    if (name !== 'base' && !loaded.has(name))
      throw new RolloutFailure('unknown-model', `The model ${name} does not exist`, 404);
  };
  const server: FakeServer = {
    loaded,
    log,
    alive: true,
    faults: {},
    answersAs: (name) => (name === 'base' ? BASE : policyOf(Number(name.split('-v')[1]))),
    restart() {
      loaded.clear();
      server.alive = true;
    },
    endpoint: {
      async complete({ model, promptIds, temperature, seed }: CompletionCall) {
        log.push(`complete ${model}`);
        await ask('complete');
        known(model);
        const outputIds = [seed];
        return { model, promptIds, outputIds, logprobs: [-1], temperature, finishReason: 'stop', text: '' };
      },
      async promptLogprobs(name) {
        await ask('score');
        known(name);
        return server.answersAs(name);
      },
      async loadAdapter(name, path) {
        log.push(`load ${name}`);
        await ask('load');
        loaded.set(name, path);
      },
      async unloadAdapter(name) {
        log.push(`unload ${name}`);
        await ask('unload');
        if (!loaded.delete(name)) throw new RolloutFailure('http', 'cannot be found', 404);
      },
      async listModels() {
        await ask('list');
        const adapters = [...loaded].map(([id, root]) => ({ id, root, parent: 'base', maxModelLen: null }));
        return [{ id: 'base', root: '/base', parent: null, maxModelLen: 64 }, ...adapters];
      },
      health: () => ask('health'),
      version: async () => 'fake',
      tokenize: async () => [],
    },
  };
  return server;
}

/** Replicas `a`, `b`, … over fake servers. */
export function fakeReplicas(
  count: number,
  change: Partial<ReplicasOptions> = {},
): { servers: FakeServer[]; replicas: Replicas; timer: HandTimer; lines: string[] } {
  const timer = handTimer();
  const servers = Array.from({ length: count }, fakeServer);
  const lines: string[] = [];
  const replicas = createReplicas({
    replicas: servers.map(({ endpoint }, i) => ({ name: 'abcdef'[i]!, endpoint, adapterRoot: null })),
    deadlineMs: 10_000,
    maxConcurrent: 64,
    onPartialFailure: 'keep-old',
    tolerance: 0.01,
    healthEveryMs: 1_000,
    timer,
    say: (line) => lines.push(line),
    ...change,
  });
  return { servers, replicas, timer, lines };
}

export const callOf = (model: string, promptIds = [1, 2], seed = 7): CompletionCall => ({
  model,
  promptIds,
  maxTokens: 4,
  temperature: 1,
  seed,
  stopTokenIds: [],
});
