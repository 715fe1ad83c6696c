/**
 * For the trainer's own tests: an endpoint, an environment and trajectories over the table policy of
 * `test-support.ts`. A question is a prompt token, an output token t finds the article `a<t>`.
 */
import { stream } from '../base/random.ts';
import { readAdapter } from '../engine/peft.ts';
import type { Adapter } from '../engine/types.ts';
import type { AgentCall, Episode } from '../env/episode.ts';
import type { PolicyOutput, Query } from '../env/types.ts';
import type { Ledger } from '../reward/ledger-schema.ts';
import { type CompletionCall, type Endpoint, RolloutFailure } from '../rollout/endpoint.ts';
import { PROOF_TOLERANCE } from '../rollout/proof.ts';
import { createReplicas, type Replicas } from '../rollout/replicas.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import type { Trajectory } from '../rollout/trajectory.ts';
import { BASE_MODEL, END, type TableModel, tableLogprobs } from './test-support.ts';

export type Completion = PolicyOutput & { model: string };

/** Samples one output of the table: until the end token, or `maxTokens`. */
export function tableCompletion(
  model: TableModel,
  adapter: Adapter | null,
  call: CompletionCall,
): Completion {
  const random = stream(call.seed, 'completion');
  const outputIds: number[] = [];
  const logprobs: number[] = [];
  let previous = call.promptIds.at(-1)!;
  while (outputIds.length < call.maxTokens && !call.stopTokenIds.includes(outputIds.at(-1) ?? -1)) {
    const logs = tableLogprobs(model, adapter, previous, call.temperature || 1);
    let next = logs.indexOf(Math.max(...logs));
    if (call.temperature > 0) {
      let left = random.next();
      next = logs.findIndex((x) => {
        left -= Math.exp(x);
        return left < 0;
      });
      if (next < 0) next = model.vocab - 1;
    }
    outputIds.push(next);
    logprobs.push(logs[next]!);
    previous = next;
  }
  const stopped = call.stopTokenIds.includes(outputIds.at(-1)!);
  return {
    model: call.model,
    promptIds: call.promptIds,
    outputIds,
    logprobs,
    temperature: call.temperature,
    finishReason: stopped ? 'stop' : 'length',
    text: outputIds.join(' '),
  };
}

export interface TableEndpoint extends Endpoint {
  /** Everything that was asked, in order: `complete <model>`, `load <name>`, `unload <name>`. */
  log: string[];
  /** Adapters that are loaded. */
  resident(): string[];
}

/**
 * An endpoint over the table that reads adapters from their folders. `script` comes before every
 * completion: it may wait, throw, or give the answer; `n` counts the completions from 0.
 */
export function createTableEndpoint(
  model: TableModel,
  script: (call: CompletionCall, n: number) => Promise<Completion | undefined> = async () => undefined,
): TableEndpoint {
  const loaded = new Map<string, { path: string; adapter: Adapter }>();
  const log: string[] = [];
  let asked = 0;
  const adapterOf = (name: string): Adapter | null => {
    if (name === BASE_MODEL) return null;
    const found = loaded.get(name);
    if (!found) throw new RolloutFailure('unknown-model', `The model \`${name}\` does not exist.`, 404);
    return found.adapter;
  };
  return {
    log,
    resident: () => [...loaded.keys()],
    async complete(call) {
      log.push(`complete ${call.model}`);
      const n = asked++;
      return (await script(call, n)) ?? tableCompletion(model, adapterOf(call.model), call);
    },
    async promptLogprobs(name, ids) {
      const adapter = adapterOf(name);
      return ids.slice(1).map((id, i) => tableLogprobs(model, adapter, ids[i]!, 1)[id]!);
    },
    async loadAdapter(name, path) {
      log.push(`load ${name}`);
      loaded.set(name, { path, adapter: readAdapter(path) });
    },
    async unloadAdapter(name) {
      log.push(`unload ${name}`);
      if (!loaded.delete(name)) throw new RolloutFailure('http', `${name} cannot be found`, 404);
    },
    async listModels() {
      return [
        { id: BASE_MODEL, root: '/base', parent: null, maxModelLen: 64 },
        ...[...loaded].map(([id, { path }]) => ({ id, root: path, parent: BASE_MODEL, maxModelLen: null })),
      ];
    },
    async health() {},
    version: async () => 'table',
    tokenize: async (_, text) => [...text].map((char) => char.codePointAt(0)!),
  };
}

/** The endpoint as the only replica. `tolerance` of a proof in nats; `staleness` as in `ReplicasOptions`. */
export function tableReplicas(endpoint: Endpoint, tolerance = PROOF_TOLERANCE, staleness = 0): Replicas {
  return createReplicas({
    replicas: [{ name: 'table', endpoint, adapterRoot: null }],
    deadlineMs: 100,
    maxConcurrent: 64,
    onPartialFailure: 'keep-old',
    tolerance,
    staleness,
    healthEveryMs: 1e9,
    // No health checks, and nobody waits.
    timer: {
      now: () => performance.now(),
      after(ms, run) {
        if (ms < 1e6) setTimeout(run, 0);
        return () => {};
      },
    },
    say: () => {},
  });
}

/** A ledger of one term. */
export const ledgerOf = (reward: number): Ledger => ({
  terms: [{ name: 'recall', raw: reward, weight: 1, value: reward }],
  total: reward,
});

/** A trajectory with a reward and the calls given as `[prompt, output]`; the sampler's values from `logprobsOf`. */
export function tableTrajectory(
  reward: number,
  calls: [promptIds: number[], outputIds: number[]][],
  logprobsOf: (promptIds: number[], outputIds: number[]) => number[],
  about: Partial<Trajectory> = {},
): Trajectory {
  return {
    runId: 'r',
    step: 1,
    queryId: 'q',
    member: 0,
    policyVersion: 0,
    adapter: 'r-v0',
    calls: calls.map(([promptIds, outputIds], round) => agentCall(promptIds, outputIds, logprobsOf, round)),
    rounds: [],
    pool: [],
    termination: { kind: 'planner', reason: '' },
    ledger: ledgerOf(reward),
    advantage: null,
    dropReason: null,
    timings: {},
    ...about,
  };
}

const agentCall = (
  promptIds: number[],
  outputIds: number[],
  logprobsOf: (promptIds: number[], outputIds: number[]) => number[],
  round: number,
): AgentCall => ({
  role: 'planner',
  round,
  promptIds,
  outputIds,
  logprobs: logprobsOf(promptIds, outputIds),
  temperature: 1,
  finishReason: 'stop',
  text: '',
  action: null,
});

/** The question of prompt token `token`, answered by output token `gold`. */
export const tableQuery = (token: number, gold: number): Query => ({
  id: `q${token}`,
  query: String(token),
  gold: [`a${gold}`],
});

/** One call an episode; the reward is the share of the gold found. `change` replaces parts. */
export function tableContext(endpoint: Endpoint, change: Partial<RolloutContext> = {}): RolloutContext {
  let now = 0;
  return {
    runId: 'r',
    seed: 7,
    endpoint,
    renderPrompt: (messages) => messages.map(({ content }) => Number(content)),
    stopTokenIds: [END],
    async runEpisode({ query }, policy): Promise<Episode> {
      const messages = [{ role: 'user' as const, content: query }];
      const output = await policy({ role: 'planner', round: 0, callIndex: 0, messages });
      const pool = [...new Set(output.outputIds.filter((id) => id !== END).map((id) => `a${id}`))];
      return {
        calls: [{ role: 'planner', round: 0, action: null, ...output }],
        rounds: [{ agent: 'planner', queries: [query], dropped: [], newIds: pool, poolSize: pool.length }],
        pool,
        termination: { kind: 'planner', reason: 'one call' },
      };
    },
    score: ({ pool }, { gold }) => ledgerOf(gold.filter((id) => pool.includes(id)).length / gold.length),
    now: () => now++,
    ...change,
  };
}
