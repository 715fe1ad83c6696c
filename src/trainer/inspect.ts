/** Looking at a policy outside of training: `lexpo eval` and `lexpo rollout`. */

import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { UserError } from '../base/errors.ts';
import type { Config } from '../config/schema.ts';
import { checkAdapterFits, readAdapter } from '../engine/peft.ts';
import type { Query } from '../env/types.ts';
import { evaluatePolicy, type PolicyEvaluation } from '../eval/evaluate-policy.ts';
import type { EvalFigures } from '../report/tables.ts';
import { type PolicyVersion, type RolloutContext, rollOutGroup } from '../rollout/roll-out.ts';
import type { RolloutResult, Trajectory } from '../rollout/trajectory.ts';
import { proofTolerance } from './create-learner.ts';
import { assignCredit } from './credit.ts';
import { createEnvironment, type Environment } from './environment.ts';
import { namedBaselines, singlePass } from './final-report.ts';
import { startPolicyService } from './policy-service.ts';
import {
  type Data,
  ensureModel,
  greedySampling,
  loadData,
  probeIds,
  rolloutContext,
  trainSampling,
} from './prepare.ts';
import { publishedAdapter } from './publish.ts';
import { rankingFigures } from './report-comparisons.ts';
import { runFolder } from './run-folder.ts';

export interface InspectOptions {
  config: Config;
  /** An adapter folder; null: the base model alone. */
  adapter: string | null;
  log: (line: string) => void;
}

interface Inspected {
  data: Data;
  environment: Environment;
  context: RolloutContext;
  policy: PolicyVersion;
}

/** Serves the model (and adapter) for as long as `use` runs. */
async function withPolicy<T>(
  { config, adapter, log }: InspectOptions,
  use: (parts: Inspected) => Promise<T>,
): Promise<T> {
  if (adapter !== null && !existsSync(join(adapter, 'adapter_config.json')))
    throw new UserError(
      'holds no adapter_config.json',
      adapter,
      'give the folder of an adapter, such as runs/quickstart/adapters/quickstart-v40',
    );
  const data = await loadData(config);
  const model = await ensureModel(config, data, log);
  if (adapter !== null) checkAdapterFits(readAdapter(adapter), model.config, adapter);
  const environment = createEnvironment(config, data, { say: log });
  const folder = adapter === null ? null : resolve(adapter);
  checkShared(config, folder);
  const service = await startPolicyService(config, model, {
    adapterRoot: folder === null ? model.folder : dirname(folder),
    probeIds: probeIds(model, data),
    tolerance: proofTolerance(config.learner),
    lora: null,
    adopt: false,
    say: log,
  });
  try {
    if (folder !== null) await service.replicas.hold(publishedAdapter(folder));
    const context = rolloutContext(config, model, environment, service.replicas);
    const name = folder === null ? service.baseModel : basename(folder);
    return await use({ data, environment, context, policy: { version: 0, model: name } });
  } finally {
    await service.close();
  }
}

/** Servers that see the run's adapters under another path see no others. */
function checkShared(config: Config, folder: string | null): void {
  const { endpoint } = config;
  const mapped = endpoint.kind === 'vllm' && endpoint.replicas.some((one) => one.adapterRoot !== undefined);
  const { adapters } = runFolder(config);
  if (mapped && folder !== null && dirname(folder) !== adapters)
    throw new UserError(
      `is not in ${adapters}, the folder that endpoint.replicas[].adapterRoot stands for`,
      folder,
      'copy the adapter there under a name of its own, or take it from another run with --set run.name',
    );
}

/** Held-out figures: single-pass retrieval, the baselines when asked for, and the policy (greedy), in this order. */
export function evaluateAdapter(
  options: InspectOptions & { baselines: boolean },
): Promise<{ name: string; figures: EvalFigures }[]> {
  const { config } = options;
  return withPolicy(options, async ({ data, environment, context, policy }) => [
    { name: 'single-pass', figures: rankingFigures(singlePass(environment, data.validation, config)) },
    ...(options.baselines ? namedBaselines(environment, data, config) : []).map(({ name, evaluation }) => ({
      name,
      figures: rankingFigures(evaluation),
    })),
    {
      name: policy.model,
      figures: await evaluateGreedy(config, data, context, policy),
    },
  ]);
}

/** The policy's own held-out episodes (greedy), question by question. */
export function evaluateHeldOut(options: InspectOptions): Promise<PolicyEvaluation> {
  return withPolicy(options, ({ data, context, policy }) =>
    evaluateGreedy(options.config, data, context, policy),
  );
}

const evaluateGreedy = (
  config: Config,
  { validation }: Data,
  context: RolloutContext,
  policy: PolicyVersion,
): Promise<PolicyEvaluation> =>
  evaluatePolicy(context, validation, policy, {
    k: config.eval.k,
    sampling: greedySampling(config),
    sample: 0,
  });

/** One question: by id of the training or held-out set, or free text with the gold ids where they are known. */
export type Question = { queryId: string } | { text: string; gold: string[] };

export interface Inspection {
  query: Query;
  results: RolloutResult[];
  /** False without gold or answer: rewards and advantages then mean nothing and are not to be shown. */
  scored: boolean;
}

/** A group of rollouts of one question, with reward terms and advantages as in training. */
export function inspectQuestion(
  options: InspectOptions & { question: Question; members: number },
): Promise<Inspection> {
  const { config, question, members } = options;
  return withPolicy(options, async ({ data, context, policy }) => {
    const query = findQuestion(question, data);
    const scored = query.gold.length > 0 || query.answer !== undefined;
    const ctx = scored ? context : { ...context, score: () => ({ terms: [], total: 0 }) };
    const results = await rollOutGroup(ctx, query, policy, trainSampling(config), 0, members);
    const group: Trajectory[] = results.flatMap((r) => (r.kind === 'ok' ? [r.trajectory] : []));
    if (scored) assignCredit([group], { ...config.advantage, minGroup: 2 });
    return { query, results, scored };
  });
}

function findQuestion(question: Question, data: Data): Query {
  if ('text' in question) {
    const unknown = question.gold.filter((id) => !data.corpus.byId.has(id));
    if (unknown.length > 0) throw new UserError(`no such article: ${unknown.join(', ')}`, '--gold');
    if (question.text.trim() === '') throw new UserError('the question is empty', '--query');
    return { id: 'asked', query: question.text, gold: question.gold };
  }
  const found = [...data.train, ...data.validation].find(({ id }) => id === question.queryId);
  if (!found) throw new UserError(`no question has the id ${question.queryId}`, '--query-id');
  return found;
}
