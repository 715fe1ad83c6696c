/** `lexpo train --dry-run`: the resolved configuration and the plan, as text. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { configWarnings, type PlanFacts, planRun, type RunPlan } from '../config/plan.ts';
import type { Config } from '../config/schema.ts';
import { readDecoderConfig } from '../engine/model-config.ts';
import { short } from '../report/text.ts';
import { loadData } from '../trainer/prepare.ts';

/** Reads data and model shape, so their mistakes show too; trains and writes nothing. */
export async function dryRun(config: Config): Promise<string> {
  const facts = await readFacts(config);
  const plan = planRun(config, facts);
  const warnings = configWarnings(config, facts).map((line) => `note: ${line}\n`);
  return `${stringify(config)}\n${planText(config, facts, plan)}${warnings.join('')}`;
}

async function readFacts(config: Config): Promise<PlanFacts> {
  const { corpus, train, validation } = await loadData(config);
  const { path, build } = config.model;
  const absent = !existsSync(join(path, 'config.json'));
  return {
    articles: corpus.articles.length,
    corpusChars: corpus.articles.reduce((sum, { title, text }) => sum + title.length + text.length, 0),
    trainQueries: train.length,
    validationQueries: validation.length,
    decoder: absent && build ? null : readDecoderConfig(path),
  };
}

/** The plan in lines of `name  value`. */
function planText(config: Config, facts: PlanFacts, plan: RunPlan): string {
  const { queriesPerStep, groupSize } = config.rollout;
  const memory = plan.memory;
  const lines: [string, string][] = [
    [
      'data',
      `${facts.articles} articles, ${facts.trainQueries} training, ${facts.validationQueries} held-out questions`,
    ],
    ['steps', `${plan.steps}, each ${queriesPerStep} questions × ${groupSize} rollouts`],
    ['rollouts', `${plan.rollouts}, ${plan.epochs.toFixed(2)} passes over the training questions`],
    ['sampled tokens', `at most ${short(plan.rolloutTokens)}`],
    ...(plan.demonstrations > 0
      ? [['warm start', `${plan.demonstrations} demonstrated episodes`] satisfies [string, string]]
      : []),
    ['evaluations', `at steps ${plan.evaluations.join(', ')}: ${plan.evaluationEpisodes} episodes`],
    memory
      ? ['memory', `about ${short(memory.total)}B: ${memoryParts(memory)}`]
      : ['memory', `known when ${config.model.path} is made: lexpo build-model`],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  return lines.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
}

function memoryParts(memory: NonNullable<RunPlan['memory']>): string {
  const { parameters, adapterParameters, weights, adapter, activations, data } = memory;
  return [
    `weights ${short(weights)}B (${short(parameters)} parameters)`,
    `adapter and optimiser ${short(adapter)}B (${short(adapterParameters)} parameters)`,
    `activations ${short(activations)}B`,
    `program and corpus ${short(data)}B`,
  ].join(', ');
}
