/** For the tests of the loop: a run in which all is real but policy, learner and endpoint. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, vi } from 'vitest';
import { type Config, configSchema } from '../config/schema.ts';
import type { Query } from '../env/types.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import type { CompletionCall } from '../rollout/endpoint.ts';
import { inProcessPool } from '../rollout/pool/pool.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import type { Checkpoint, Progress } from './checkpoint.ts';
import { type LoopParts, type StepOutcome, trainLoop } from './loop.ts';
import { trainSampling } from './prepare.ts';
import { PROOF_TOLERANCE, type PublishTarget, publish } from './publish.ts';
import {
  BASE_MODEL,
  createTableLearner,
  freshState,
  type TableLearner,
  tableAdapter,
  tableModel,
} from './test-support.ts';
import {
  createTableEndpoint,
  type TableEndpoint,
  tableContext,
  tableQuery,
  tableReplicas,
} from './test-support-rollout.ts';

/** Uniform over eight tokens. */
export const model = tableModel(8);
/** After token i pays token i + 1; the held-out questions are others with the same tokens. */
export const train: Query[] = [1, 2, 3, 4, 5, 6].map((i) => tableQuery(i, i + 1));
export const validation: Query[] = train.map((query) => ({ ...query, id: `held-${query.id}` }));

/** A folder of the test's own. */
export let root = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-loop-'));
});
afterEach(() => rmSync(root, { recursive: true }));

type Sections = { [K in keyof Config]?: object };
export function configOf(steps: number, change: Sections = {}): Config {
  return configSchema.parse({
    model: { path: BASE_MODEL },
    data: { corpus: 'c', train: 't', validation: 'v' },
    ...change,
    run: { name: 'run', seed: 3, ...change.run },
    rollout: {
      queriesPerStep: 4,
      groupSize: 6,
      minGroup: 2,
      maxTokens: { planner: 1 },
      maxAttempts: 1,
      ...change.rollout,
    },
    optimizer: { learningRate: 0.3, warmupSteps: 0, maxSkipped: 3, ...change.optimizer },
    eval: { k: 1, ...change.eval },
    train: { steps, evalEvery: 2, checkpointEvery: 2, ...change.train },
  });
}

export interface Run {
  parts: LoopParts;
  learner: TableLearner;
  endpoint: TableEndpoint;
  replicas: Replicas;
  outcomes: StepOutcome[];
  evaluated: number[];
  evaluations: PolicyEvaluation[];
  kept: Checkpoint[];
  controller: AbortController;
}

/** A run with everything real but policy, learner and endpoint. `context` and `parts` replace parts. */
export function newRun(
  config: Config,
  change: {
    context?: Partial<RolloutContext>;
    parts?: (run: Run) => Partial<LoopParts>;
    script?: (call: CompletionCall, n: number) => Promise<undefined>;
    start?: Checkpoint['learner'];
    folder?: string;
  } = {},
): Run {
  const endpoint = createTableEndpoint(model, change.script);
  const learner = createTableLearner(model, change.start ?? freshState(tableAdapter(model, 0)));
  const controller = new AbortController();
  const replicas = tableReplicas(endpoint, PROOF_TOLERANCE, config.train.maxStaleness);
  const target: PublishTarget = {
    replicas,
    adapterRoot: join(root, change.folder ?? 'adapters'),
    runName: 'run',
    baseModel: BASE_MODEL,
    probeIds: [1, 3, 5, 2, 4, 6, 1],
  };
  const run = {
    learner,
    endpoint,
    replicas,
    outcomes: [],
    evaluated: [],
    evaluations: [],
    kept: [],
    controller,
  } as Omit<Run, 'parts'> as Run;
  const context = tableContext(endpoint, { runId: 'run', seed: config.run.seed, ...change.context });
  run.parts = {
    config,
    context,
    pool: inProcessPool(context, trainSampling(config)),
    learner,
    target,
    train,
    validation,
    signal: controller.signal,
    onStep: async (outcome) => {
      run.outcomes.push(outcome);
    },
    onEvaluation: async (step, evaluation) => {
      run.evaluated.push(step);
      run.evaluations.push(evaluation);
    },
    keep: async (checkpoint) => {
      run.kept.push(structuredClone(checkpoint));
    },
  };
  Object.assign(run.parts, change.parts?.(run));
  return run;
}
/** Publishes version 0. */
export async function begin(run: Run): Promise<Progress> {
  const policy = await publish(run.parts.target, run.learner, (await run.learner.state()).adapter, 0);
  return {
    step: 0,
    policy,
    startAdapter: policy.model,
    cursor: 0,
    best: null,
    skippedInARow: 0,
    alarmsInARow: 0,
    seconds: 0,
  };
}
export const play = async (run: Run): Promise<Progress> => trainLoop(run.parts, await begin(run));
export const keptSteps = ({ kept }: Run): number[] => kept.map(({ progress }) => progress.step);
export const recallOf = ({ evaluations }: Run): number[] => evaluations.map(({ recall }) => recall);
/** A configuration whose steps are sampled ahead. */
export const configAhead = (steps: number, maxStaleness: number, change: Sections = {}): Config =>
  configOf(steps, { ...change, train: { maxStaleness, ...change.train } });
/** A step without what a clock says. */
export const timeless = ({ seconds: _, sampled, ...outcome }: StepOutcome) => ({
  ...outcome,
  sampled: { ...sampled, groups: sampled.groups.map((g) => g.map((t) => ({ ...t, timings: {} }))) },
});

/** Each test of the file fails when a promise was rejected that nobody listened to. */
export function failOnUnhandled(): void {
  const unhandled = vi.fn();
  beforeEach(() => {
    unhandled.mockClear();
    process.on('unhandledRejection', unhandled);
  });
  afterEach(async () => {
    await new Promise(setImmediate);
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });
}
