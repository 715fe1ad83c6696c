/** `lexpo train --dry-run`: the resolved configuration and the plan, as text. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { configWarnings, type PlanFacts, planRun, type RunPlan } from '../config/plan.ts';
import type { Config } from '../config/schema.ts';
import { short } from '../report/text.ts';
import { describeTorch } from '../trainer/learner/torch-launch.ts';
import { corpusChars, freeMemory, memoryText, memoryWarnings } from '../trainer/memory-plan.ts';
import { type Data, dataWarnings, loadData, loadModel } from '../trainer/prepare.ts';

/** Reads data, tokenizer and model shape, so their mistakes show too; trains nothing, and writes nothing but questions to import. */
export async function dryRun(config: Config): Promise<string> {
  const data = await loadData(config);
  const facts = factsOf(config, data);
  const plan = planRun(config, facts);
  const notes = [
    ...configWarnings(config, facts),
    ...dataWarnings(data),
    ...(plan.memory ? memoryWarnings(plan.memory, freeMemory(), config.learner.kind) : []),
  ];
  const warnings = notes.map((line) => `note: ${line}\n`);
  return `${stringify(config)}\n${planText(config, facts, plan)}${warnings.join('')}`;
}

function factsOf(config: Config, { corpus, train, validation }: Data): PlanFacts {
  const { path, build, chatTemplate } = config.model;
  const absent = !existsSync(join(path, 'config.json'));
  return {
    articles: corpus.articles.length,
    corpusChars: corpusChars({ corpus }),
    trainQueries: train.length,
    validationQueries: validation.length,
    decoder: absent && build ? null : loadModel(path, chatTemplate).config,
  };
}

/** What computes gradients, and what has to be started by hand for it. */
function learnerText(learner: Config['learner']): string[] {
  if (learner.kind === 'torch') return describeTorch(learner);
  return [`${learner.kind}: ${learner.threads === 1 ? '1 thread' : `${learner.threads} threads`}`];
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
    ...learnerText(config.learner).map((line, i): [string, string] => [i === 0 ? 'learner' : '', line]),
    memory
      ? ['memory', memoryText(memory)]
      : ['memory', `known when ${config.model.path} is made: lexpo build-model`],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  return lines.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`).join('');
}
