/** One training run from its configuration to its summary: what `lexpo train` does. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import type { Config } from '../config/schema.ts';
import { checkAdapterFits, initAdapter, readAdapter } from '../engine/peft.ts';
import type { LoraSpec } from '../engine/types.ts';
import { demonstrate } from '../env/malr/demonstrate.ts';
import { mineTerms } from '../env/terms.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { mean } from '../eval/metrics.ts';
import { type MetricValues, openMetrics } from '../report/metrics.ts';
import type { Screen } from '../report/progress.ts';
import { writeSummary } from '../report/summary.ts';
import { evaluationTable } from '../report/tables.ts';
import type { PolicyVersion } from '../rollout/roll-out.ts';
import {
  type Checkpoint,
  latestCheckpoint,
  type Progress,
  pruneCheckpoints,
  writeCheckpoint,
} from './checkpoint.ts';
import { rankingFigures, reportRun, singlePass } from './final-report.ts';
import type { Learner } from './learner/learner.ts';
import { createOnnxLearner } from './learner/onnx-learner.ts';
import { type StepOutcome, trainLoop } from './loop.ts';
import { createOptimizerState } from './optimizer.ts';
import {
  configHash,
  createSearch,
  type Data,
  ensureModel,
  loadData,
  type Model,
  malrConfig,
  rolloutContext,
  type Search,
  startPolicyService,
} from './prepare.ts';
import { type PublishTarget, publish } from './publish.ts';
import { type RunFolder, runFolder, writeConfig, writeEvaluation, writeTrajectories } from './run-folder.ts';
import { demonstrationSample, warmStart } from './warm-start.ts';

export interface RunOptions {
  config: Config;
  /** Go on from the newest whole checkpoint of the run folder. */
  resume: boolean;
  /** Fires when the run should end early: it finishes the step, and leaves a checkpoint. */
  signal: AbortSignal;
  screen: Screen;
}

export interface RunResult {
  /** `interrupted`: a checkpoint was left, and `--resume` goes on from it. */
  kind: 'finished' | 'interrupted';
  folder: RunFolder;
}

/** Trains. Everything that it leaves is in the run folder; what it prints goes to the screen. */
export async function runTraining({ config, resume, signal, screen }: RunOptions): Promise<RunResult> {
  const folder = runFolder(config);
  const about = { configHash: configHash(config), baseModel: config.model.path };
  const note = (line: string): void => screen.print(line);
  const resumed = resume ? await latestCheckpoint(folder.checkpoints, about.configHash, note) : null;
  if (resumed) note(`resuming ${config.run.name} after step ${resumed.progress.step}`);

  const data = await loadData(config);
  note(
    `${data.corpus.articles.length} articles, ${data.train.length} training and ${data.validation.length} held-out questions`,
  );
  const model = await ensureModel(config, data, note);
  const search = createSearch(config, data.corpus);
  const started = performance.now();
  await mkdir(folder.adapters, { recursive: true });
  await writeConfig(folder, config);

  const learner = await createOnnxLearner({
    modelFolder: model.folder,
    spec: loraSpec(config),
    optimizer: config.optimizer,
    threads: config.learner.threads,
    start: resumed?.learner ?? startState(config, model),
  });
  const service = await startPolicyService(config, model, folder.adapters);
  const context = rolloutContext(config, model, search, service.endpoint);
  const target: PublishTarget = {
    endpoint: service.endpoint,
    adapterRoot: folder.adapters,
    runName: config.run.name,
    baseModel: config.model.path,
    probeIds: probeIds(model, data),
  };
  try {
    const progress = resumed
      ? {
          ...resumed.progress,
          policy: await publish(target, learner, resumed.learner.adapter, resumed.progress.policy.version),
        }
      : await startRun(config, data, model, search, learner, target, screen);
    const metrics = await openMetrics(folder.metrics, resumed?.progress.step);
    const baseline = singlePass(search, data.validation, config);
    const bar = screen.start('step', config.train.steps, progress.step);
    const startSeconds = (performance.now() - started) / 1000;
    const end = await trainLoop(
      {
        config,
        context,
        learner,
        target,
        train: data.train,
        validation: data.validation,
        signal,
        onStep: async (outcome) => {
          await writeTrajectories(folder, outcome.step, outcome.sampled.groups);
          bar.update(outcome.step, stepLine(outcome));
          const [failure] = outcome.sampled.failures;
          if (failure)
            note(
              `step ${outcome.step}: ${outcome.sampled.failures.length} rollouts failed, the first with ${failure.reason}`,
            );
          await metrics.append(outcome.step, stepMetrics(outcome));
        },
        onEvaluation: async (step, evaluation) => {
          await writeEvaluation(folder, step, evaluation);
          await metrics.append(step, evalMetrics(evaluation));
          if (evaluation.failed > 0)
            note(`${evaluation.failed} held-out questions have no rollout: they count as found nothing`);
          note(
            evaluationTable(config.eval.k, [
              { name: 'single-pass', figures: rankingFigures(baseline) },
              { name: `step ${step}`, figures: evaluation },
            ]),
          );
        },
        keep: (checkpoint) => keepCheckpoint(folder, config, checkpoint, about),
      },
      resumed ? progress : { ...progress, seconds: startSeconds },
    );
    bar.end();
    await metrics.close();
    if (end.step < config.train.steps) {
      note(`stopped after step ${end.step}; go on with --resume`);
      return { kind: 'interrupted', folder };
    }
    const load = async (name: string): Promise<PolicyVersion> => {
      await service.endpoint.loadAdapter(name, join(folder.adapters, name));
      return { version: Number(/-v(\d+)/.exec(name)?.[1] ?? 0), model: name };
    };
    const { report, table } = await reportRun({
      config,
      data,
      model,
      search,
      context,
      load,
      folder,
      end,
      baseline,
    });
    await writeSummary(
      folder.summary,
      {
        steps: end.step,
        seconds: Math.round(end.seconds * 10) / 10,
        eval: { singlePass: baseline, before: report.before, after: report.after },
        adapter: report.adapter,
      },
      config.eval.k,
    );
    note(table);
    return { kind: 'finished', folder };
  } finally {
    await service.server.close();
    await learner.close();
  }
}

/**
 * The adapter that the run starts from: the one that `lora.start` names, whose frozen copy is the KL
 * reference; else a fresh one, which is a no-op until it is trained.
 */
function startState(config: Config, model: Model): Checkpoint['learner'] {
  const spec = loraSpec(config);
  const { start } = config.lora;
  if (start === undefined) {
    const adapter = initAdapter(model.config, spec, stream(config.run.seed, 'adapter'));
    return { adapter, reference: null, optimizer: createOptimizerState(adapter.tensors) };
  }
  const adapter = readAdapter(start);
  checkAdapterFits(adapter, model.config, start);
  if (!isDeepStrictEqual(shapeOf(adapter.spec), shapeOf(spec)))
    throw new UserError(
      `has r ${adapter.spec.r}, alpha ${adapter.spec.alpha}, rslora ${adapter.spec.rslora} on ${adapter.spec.targets.join(', ')}`,
      start,
      'set lora.r, lora.alpha, lora.rslora and lora.targets to its values',
    );
  return { adapter, reference: adapter, optimizer: createOptimizerState(adapter.tensors) };
}

const shapeOf = ({ targets, ...rest }: LoraSpec) => ({ ...rest, targets: [...targets].sort() });

function loraSpec({ lora: { start: _, ...spec } }: Config): LoraSpec {
  return spec;
}

/** Ids of a fixed prompt that every proof of publication is asked on: the start of the first held-out question. */
function probeIds(model: Model, data: Data): number[] {
  const messages = [{ role: 'user' as const, content: data.validation[0]!.query }];
  return model.renderPrompt(messages).slice(0, 48);
}

/** Step 0: the warm start when there is one, and the first published version. */
async function startRun(
  config: Config,
  data: Data,
  model: Model,
  search: Search,
  learner: Learner,
  target: PublishTarget,
  screen: Screen,
): Promise<Progress> {
  if (config.sft) {
    const { share, rolloutsPerQuery, epochs, tokensPerStep, learningRate } = config.sft;
    const { seed } = config.run;
    const taught = stream(seed, 'warm-start', 'questions')
      .shuffle(data.train)
      .slice(0, Math.ceil(data.train.length * share));
    const demonstrations = await demonstrate(taught, search.tools, {
      config: malrConfig(config),
      articles: data.corpus.byId,
      terms: mineTerms(data.corpus.articles),
      rollouts: rolloutsPerQuery,
      seed,
    });
    const samples = demonstrations.map((d) =>
      demonstrationSample(d, model.renderPrompt, (text) => model.tokenizer.encode(text), model.endId),
    );
    const settings = { epochs, tokensPerStep, learningRate, limits: config.learner, seed };
    let bar: ReturnType<Screen['start']> | null = null;
    const { steps, loss } = await warmStart(learner, samples, settings, (step, total, now) => {
      bar ??= screen.start('warm start', total);
      bar.update(step, `loss ${now.toFixed(3)}`);
    });
    screen.print(
      `warm start: ${samples.length} calls of ${taught.length} questions, ${steps} updates, loss ${loss.toFixed(3)}`,
    );
  }
  const policy = await publish(target, learner, (await learner.state()).adapter, 0);
  return { step: 0, policy, startAdapter: policy.model, cursor: 0, best: null, skippedInARow: 0, seconds: 0 };
}

async function keepCheckpoint(
  folder: RunFolder,
  config: Config,
  checkpoint: Checkpoint,
  about: { configHash: string; baseModel: string },
): Promise<void> {
  await writeCheckpoint(folder.checkpoints, checkpoint, about);
  await pruneCheckpoints(folder.checkpoints, config.train.keep, checkpoint.progress.best?.step ?? null);
}

const evalMetrics = ({
  recall,
  mrr,
  ndcg,
  invalidRate,
  meanRounds,
  meanPool,
}: PolicyEvaluation): MetricValues => ({
  'eval/recall': recall,
  'eval/mrr': mrr,
  'eval/ndcg': ndcg,
  'eval/invalidRate': invalidRate,
  'eval/meanRounds': meanRounds,
  'eval/meanPool': meanPool,
});

const meanOr0 = (values: number[]): number => (values.length === 0 ? 0 : mean(values));

function stepMetrics({ sampled, dropped, update, learningRate, seconds }: StepOutcome): MetricValues {
  const all = sampled.groups.flat();
  const term = (name: string): number[] =>
    all.flatMap(({ ledger }) => ledger.terms.filter((t) => t.name === name).map((t) => t.raw));
  const spreads = sampled.groups
    .filter((group) => group.length > 1)
    .map((group) => {
      const totals = group.map(({ ledger }) => ledger.total);
      const center = mean(totals);
      return Math.sqrt(mean(totals.map((r) => (r - center) ** 2)));
    });
  return {
    'reward/mean': meanOr0(all.map(({ ledger }) => ledger.total)),
    'reward/recall': meanOr0(term('recall')),
    'reward/std': meanOr0(spreads),
    'rollout/invalidRate': meanOr0(all.map((t) => (t.termination.kind === 'invalid' ? 1 : 0))),
    'rollout/meanRounds': meanOr0(all.map((t) => t.rounds.length)),
    'rollout/meanPool': meanOr0(all.map((t) => t.pool.length)),
    'rollout/failed': sampled.failures.length,
    'groups/dropped': Object.values(dropped).reduce((a, b) => a + b, 0),
    'groups/zeroVariance': dropped['no variance'] ?? 0,
    'policy/entropy': update?.entropy,
    'policy/kl': update?.kl,
    'policy/clipFraction': update?.clipFraction,
    'policy/mismatch': update?.mismatchMean,
    'learn/gradNorm': update?.gradNorm,
    'learn/loss': update?.loss,
    'learn/rate': learningRate,
    'learn/skipped': update?.skipped,
    'tokens/sampled': all.reduce((n, t) => n + t.calls.reduce((m, call) => m + call.outputIds.length, 0), 0),
    'tokens/trained': update?.tokensAfter,
    'time/rollout': seconds.sample * 1000,
    'time/learn': seconds.learn * 1000,
    'time/publish': seconds.publish * 1000,
  };
}

function stepLine(outcome: StepOutcome): string {
  const values = stepMetrics(outcome);
  const show = (name: keyof MetricValues, digits: number): string => values[name]?.toFixed(digits) ?? '-';
  return [
    `reward ${show('reward/mean', 3)}`,
    `recall ${show('reward/recall', 3)}`,
    `rounds ${show('rollout/meanRounds', 2)}`,
    `entropy ${show('policy/entropy', 2)}`,
    `kl ${show('policy/kl', 3)}`,
  ].join('  ');
}
