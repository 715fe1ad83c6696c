/** Ten GRPO steps of `lexpo train` on the demo with vLLM as the endpoint, and what its run folder proves afterwards. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { readJsonLines } from '../../src/base/jsonl.ts';
import { runCli } from '../../src/cli/main.ts';
import { readAdapter } from '../../src/engine/peft.ts';
import { createEndpoint } from '../../src/rollout/endpoint.ts';
import { PROOF_TOLERANCE } from '../../src/rollout/proof.ts';
import { loadTokenizer } from '../../src/rollout/tokenizer.ts';
import { type Trajectory, trajectorySchema } from '../../src/rollout/trajectory.ts';
import { stepName } from '../../src/trainer/run-folder.ts';
import { type Difference, difference, learnerLogprobs, openLearner } from './mismatch.ts';

export const STEPS = 10;
const RUN = 'vllm';
/** Nats: both sides are float32. */
const PROOF = PROOF_TOLERANCE;
/** Trajectories of a step whose log-probabilities are computed again. */
export const RECOMPUTED = 8;

/** One line of metrics.jsonl. */
type Row = Record<string, number>;

export interface StepFigures {
  step: number;
  reward: number;
  recall: number;
  mismatchMean: number;
  mismatchMax: number;
  masked: number;
  trajectories: number;
  /** Names under which they were sampled. */
  adapters: string[];
  /** Sampled log-probabilities against a learner with that adapter's file, and with the next version's. */
  own: Difference;
  next: Difference;
}

export interface VersionFigures {
  name: string;
  /** Loaded anew from its folder under another name: vLLM against the learner, and against the base model. */
  toLearner: Difference;
  toBase: Difference;
}

export interface TrainFigures {
  exitCode: number;
  seconds: number;
  /** Held-out recall of ten before and after. */
  recallBefore: number | null;
  recallAfter: number | null;
  failed: number;
  /** Versions that the server was seen to list. */
  listed: string[];
  versions: VersionFigures[];
  steps: StepFigures[];
  problems: string[];
}

const trainArguments = (url: string, runs: string): string[] => {
  const endpoint = {
    kind: 'vllm',
    replicas: [{ url }],
    model: 'base',
    logprobs: 'raw',
    proofTolerance: PROOF,
  };
  const set = {
    'run.name': RUN,
    'run.dir': runs,
    'rollout.queriesPerStep': 8,
    // Log-probabilities are raw: those of the sampled distribution at temperature 1 only.
    'rollout.temperature': 1,
    'train.steps': STEPS,
    'train.evalEvery': STEPS,
    endpoint,
    'learner.threads': 1,
  };
  return [
    'train',
    'configs/quickstart.yaml',
    '--fresh',
    ...Object.entries(set).flatMap(([path, value]) => ['--set', `${path}=${JSON.stringify(value)}`]),
  ];
};

/** Trains below `runs` with the server at `url`, and takes the run folder apart. `say`: lines for the user. */
export async function trainOn(url: string, modelFolder: string, runs: string, say: (line: string) => void) {
  const endpoint = createEndpoint({ baseUrl: url, deadlineMs: 600_000, maxConcurrent: 8 });
  const listed = new Set<string>();
  const watch = setInterval(() => {
    endpoint.listModels().then(
      (cards) => {
        for (const { id } of cards) if (/-v\d+$/.test(id)) listed.add(id);
      },
      // a poll that is lost is made good by the next
      () => {},
    );
  }, 200);
  const started = performance.now();
  const exitCode = await runCli(trainArguments(url, runs)).finally(() => clearInterval(watch));
  const seconds = (performance.now() - started) / 1000;
  const folder = join(runs, RUN);
  const problems: string[] = exitCode === 0 ? [] : [`lexpo train ended with exit code ${exitCode}`];
  const rows = readFileSync(join(folder, 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
  say('computing the log-probabilities of each step again …');
  const steps: StepFigures[] = [];
  for (let step = 1; step <= STEPS; step++)
    steps.push(await stepFigures(folder, modelFolder, step, rows, problems));
  const versions: VersionFigures[] = [];
  for (const name of versionNames(folder))
    versions.push(await proveVersion(endpoint, folder, modelFolder, name, problems));
  if (versions.length !== STEPS + 1) problems.push(`${versions.length} versions lie in the run folder`);
  for (const { name } of versions)
    if (!listed.has(name)) problems.push(`the server was never seen to list ${name}`);
  const recalls = rows.filter((row) => row['eval/recall'] !== undefined).map((row) => row['eval/recall']!);
  const figures: TrainFigures = {
    exitCode,
    seconds,
    recallBefore: recalls.at(0) ?? null,
    recallAfter: recalls.at(-1) ?? null,
    failed: rows.reduce((n, row) => n + (row['rollout/failed'] ?? 0), 0),
    listed: [...listed],
    versions,
    steps,
    problems,
  };
  return figures;
}

const versionOf = (name: string): number => Number(/-v(\d+)$/.exec(name)?.[1] ?? Number.NaN);
const versionNames = (folder: string): string[] =>
  readdirSync(join(folder, 'adapters'))
    .filter((name) => new RegExp(`^${RUN}-v\\d+$`).test(name))
    .sort((a, b) => versionOf(a) - versionOf(b));

async function stepFigures(
  folder: string,
  modelFolder: string,
  step: number,
  rows: Row[],
  problems: string[],
): Promise<StepFigures> {
  const row = rows.find((one) => one.step === step && one['reward/mean'] !== undefined) ?? {};
  const trajectories: Trajectory[] = [];
  const file = join(folder, 'trajectories', `${stepName(step)}.jsonl.gz`);
  await readJsonLines(file, trajectorySchema as z.ZodType<Trajectory>, (one) => void trajectories.push(one));
  const expected = `${RUN}-v${step - 1}`;
  for (const { adapter, policyVersion, queryId, member } of trajectories)
    if (adapter !== expected || policyVersion !== step - 1)
      problems.push(`step ${step}, ${queryId}/${member}: by ${adapter}, version ${policyVersion}`);
  const calls = trajectories.slice(0, RECOMPUTED).flatMap((one) => one.calls);
  const sampled = calls.flatMap(({ logprobs }) => logprobs);
  const under = async (name: string): Promise<Difference> => {
    const learner = await openLearner(modelFolder, readAdapter(join(folder, 'adapters', name)));
    try {
      return difference(sampled, await learnerLogprobs(learner, calls, 'policy', 1));
    } finally {
      await learner.close();
    }
  };
  const [own, next] = [await under(expected), await under(`${RUN}-v${step}`)];
  if (!(own.max <= PROOF))
    problems.push(`step ${step}: sampled log-probabilities are not those of ${expected}`);
  if (!(next.mean > own.mean)) problems.push(`step ${step}: cannot be told from the next version`);
  return {
    step,
    reward: row['reward/mean'] ?? Number.NaN,
    recall: row['reward/recall'] ?? Number.NaN,
    mismatchMean: row['policy/mismatch'] ?? Number.NaN,
    mismatchMax: row['policy/mismatchMax'] ?? Number.NaN,
    masked: row['policy/masked'] ?? Number.NaN,
    trajectories: trajectories.length,
    adapters: [...new Set(trajectories.map(({ adapter }) => adapter))],
    own,
    next,
  };
}

/** Loads the folder again under a name of its own and asks for a fixed text: nothing of the run's own proof. */
async function proveVersion(
  endpoint: ReturnType<typeof createEndpoint>,
  folder: string,
  modelFolder: string,
  name: string,
  problems: string[],
): Promise<VersionFigures> {
  const path = join(folder, 'adapters', name);
  const again = `again-${name}`;
  const ids = loadTokenizer(modelFolder).encodeMarkup('房东不退押金，租客可以要求他承担什么责任？');
  const learner = await openLearner(modelFolder, readAdapter(path));
  try {
    await endpoint.loadAdapter(again, path);
    const served = await endpoint.promptLogprobs(again, ids);
    await endpoint.unloadAdapter(again);
    const sample = [{ promptIds: ids.slice(0, 1), outputIds: ids.slice(1) }];
    const toLearner = difference(served, await learnerLogprobs(learner, sample, 'policy', 1));
    const toBase = difference(served, await learnerLogprobs(learner, sample, 'base', 1));
    if (!(toLearner.max <= PROOF)) problems.push(`${name} is not served as the learner has it`);
    if (!(toBase.max > PROOF)) problems.push(`${name} is served as the base model`);
    return { name, toLearner, toBase };
  } finally {
    await learner.close();
  }
}
