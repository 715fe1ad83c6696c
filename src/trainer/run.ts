/** One training run from its configuration to its summary: what `lexpo train` does. */

import { mkdir } from 'node:fs/promises';
import { UserError } from '../base/errors.ts';
import type { MemoryEstimate } from '../config/plan.ts';
import type { Config } from '../config/schema.ts';
import { weightsMark } from '../engine/weights-mark.ts';
import type { PolicyEvaluation } from '../eval/evaluate-policy.ts';
import { openMetrics } from '../report/metrics.ts';
import type { Screen } from '../report/progress.ts';
import { writeSummary } from '../report/summary.ts';
import { evaluationTable } from '../report/tables.ts';
import type { Replicas } from '../rollout/replicas.ts';
import type { RolloutContext } from '../rollout/roll-out.ts';
import {
  type Checkpoint,
  latestCheckpoint,
  type Progress,
  pruneCheckpoints,
  writeCheckpoint,
} from './checkpoint.ts';
import { createLearner, proofTolerance } from './create-learner.ts';
import { createEnvironment } from './environment.ts';
import { reportRun, singlePass } from './final-report.ts';
import { type LoopParts, trainLoop } from './loop.ts';
import { freeMemory, heldMemory, heldText, memoryText, memoryWarnings, planMemory } from './memory-plan.ts';
import { type Monitor, openMonitor, watchedPool } from './monitor.ts';
import { startPolicyService } from './policy-service.ts';
import { openPool, type TrainerPool } from './pool.ts';
import { configHash, dataWarnings, ensureModel, loadData, probeIds, rolloutContext } from './prepare.ts';
import { publish, publishAgain } from './publish.ts';
import { rankingFigures } from './report-comparisons.ts';
import { type RunFolder, runFolder, writeConfig, writeEvaluation, writeTrajectories } from './run-folder.ts';
import { writeRunInputs } from './run-inputs.ts';
import { checkSameRun } from './same-run.ts';
import { loraSpec, type StartParts, startRun, startState } from './start-run.ts';
import { evalMetrics, stepLine, stepMetrics } from './step-record.ts';

export interface RunOptions {
  config: Config;
  /** Go on from the newest whole checkpoint of the run folder. */
  resume: boolean;
  /** Fires when the run should end early, at the next point where something whole is kept. */
  signal: AbortSignal;
  screen: Screen;
  /**
   * Called once, when all that was given has been read and opened, servers and Redis too, and before anything is
   * written that stays.
   */
  begin(): void;
}

/**
 * Trains. Everything that it leaves is in the run folder; what it prints goes to the screen. `interrupted`:
 * the signal ended it; a resumed run goes on from the newest checkpoint, or starts again where there is none.
 */
export async function runTraining(options: RunOptions): Promise<'finished' | 'interrupted'> {
  const { config, signal, screen } = options;
  const folder = runFolder(config);
  let begun = false;
  const begin = (): void => {
    begun = true;
    options.begin();
  };
  const finished = await trainAndReport({ ...options, begin }, folder).catch((error: unknown) => {
    if (!signal.aborted || error !== signal.reason) throw error;
    return false;
  });
  if (finished) return 'finished';
  screen.print(begun ? 'stopped; go on with --resume' : 'stopped; nothing was written');
  return 'interrupted';
}

/** False, or `signal.reason` thrown, when the signal ended the run before its report. */
async function trainAndReport(
  { config, resume, signal, screen, begin }: RunOptions,
  folder: RunFolder,
): Promise<boolean> {
  if (resume) await checkSameRun(folder, config);
  const data = await loadData(config, screen.print);
  screen.print(
    `${data.corpus.articles.length} articles, ${data.train.length} training and ${data.validation.length} held-out questions`,
  );
  for (const warning of dataWarnings(data)) screen.print(`note: ${warning}`);
  const model = await ensureModel(config, data, (line) => {
    // Making a base model takes minutes and keeps nothing before its end.
    signal.throwIfAborted();
    screen.print(line);
  });
  signal.throwIfAborted();
  const baseWeights = weightsMark(model.folder);
  const about = {
    configHash: configHash(config, data, baseWeights),
    baseModel: config.model.path,
  };
  const resumed = resume ? await latestCheckpoint(folder.checkpoints, about.configHash, screen.print) : null;
  if (resumed) screen.print(`resuming ${config.run.name} after step ${resumed.progress.step}`);
  else if (resume) screen.print('no checkpoint yet: starting again');
  const done = resumed?.progress.step ?? 0;
  if (done > config.train.steps)
    throw new UserError(`has ${done} steps done already`, folder.root, `set train.steps to at least ${done}`);
  const memory = planMemory(config, data, model.config);
  screen.print(`memory: ${memoryText(memory)}`);
  for (const warning of memoryWarnings(memory, freeMemory(), config.learner.kind))
    screen.print(`note: ${warning}`);
  const environment = createEnvironment(config, data, { say: screen.print });
  for (const standIn of environment.standIns) screen.print(`note: ${standIn}`);
  const started = performance.now();
  const monitor = await openMonitor({ config, role: 'trainer', now: Date.now, say: screen.print });
  const learner = await createLearner(
    config.learner,
    {
      modelFolder: model.folder,
      spec: loraSpec(config),
      optimizer: config.optimizer,
      threads: config.learner.threads,
      start: resumed?.learner ?? startState(config, model.config),
    },
    screen.print,
  ).catch(async (error: unknown) => {
    await monitor.close();
    throw error;
  });
  try {
    await mkdir(folder.adapters, { recursive: true });
    const ids = probeIds(model, data);
    const service = await startPolicyService(config, model, {
      adapterRoot: folder.adapters,
      probeIds: ids,
      tolerance: proofTolerance(config.learner),
      lora: loraSpec(config),
      adopt: true,
      say: screen.print,
    });
    try {
      const { replicas } = service;
      const target = {
        replicas,
        adapterRoot: folder.adapters,
        runName: config.run.name,
        baseModel: config.model.path,
        probeIds: ids,
      };
      const baseline = singlePass(environment, data.validation, config);
      const start: StartParts = { config, data, model, environment, learner, target, screen, signal };
      const context = rolloutContext(config, model, environment, replicas);
      const opened = await openPool({
        config,
        data,
        model,
        context,
        replicas,
        folder,
        baseWeights,
        say: screen.print,
        onRedis: monitor.redis,
      });
      const pool = watchedPool(opened, monitor, context.now);
      try {
        begin();
        // An earlier run's is gone by now.
        await mkdir(folder.adapters, { recursive: true });
        await writeConfig(folder, config);
        await writeRunInputs(folder.root, config, data, baseWeights);
        const parts: RunParts = {
          ...start,
          context,
          pool,
          replicas,
          folder,
          about,
          resumed,
          baseline,
          memory,
          monitor,
        };
        const end = await train(parts, await firstProgress(parts, started));
        if (end.step < config.train.steps) return false;
        await report(parts, end);
        return true;
      } finally {
        await pool.close();
      }
    } finally {
      await service.close();
    }
  } finally {
    await learner.close();
    await monitor.close();
  }
}

interface RunParts extends StartParts {
  context: RolloutContext;
  pool: TrainerPool;
  replicas: Replicas;
  folder: RunFolder;
  about: { configHash: string; baseModel: string };
  resumed: Checkpoint | null;
  /** Single-pass retrieval on the held-out questions. */
  baseline: PolicyEvaluation;
  memory: MemoryEstimate;
  monitor: Monitor;
}

/** A new run's start, or where the checkpoint left off, its policies published again. */
async function firstProgress(parts: RunParts, started: number): Promise<Progress> {
  if (!parts.resumed) {
    const progress = await startRun(parts);
    return { ...progress, seconds: (performance.now() - started) / 1000 };
  }
  const { progress, learner } = parts.resumed;
  const { earlier, policy: newest } = progress;
  await publishAgain(parts.target, earlier?.filter(({ model }) => model !== newest.model) ?? []);
  const policy = await publish(parts.target, parts.learner, learner.adapter, newest.version);
  return { ...progress, policy };
}

/** The loop, with everything that it tells written down and shown. */
async function train(parts: RunParts, start: Progress): Promise<Progress> {
  const { config, data, learner, target, screen, signal, folder } = parts;
  const metrics = await openMetrics(folder.metrics, parts.resumed?.progress.step);
  const bar = screen.start('step', config.train.steps, start.step);
  parts.monitor.figures(start.step, {});
  const loop: LoopParts = {
    config,
    context: parts.context,
    pool: parts.pool,
    learner,
    target,
    train: data.train,
    validation: data.validation,
    signal,
    async onStep(outcome) {
      const { step, sampled } = outcome;
      await writeTrajectories(folder, step, sampled.groups);
      const values = stepMetrics(outcome);
      bar.update(step, stepLine(values));
      if (outcome.alarms.length > 0 && outcome.alarmsInARow === 1)
        screen.print(`note: step ${step}: sampler and learner are far apart: ${outcome.alarms.join(', ')}`);
      const [failure] = sampled.failures;
      if (failure)
        screen.print(
          `step ${step}: ${sampled.failures.length} rollouts failed, the first with ${failure.reason}`,
        );
      await metrics.append(step, values);
      parts.monitor.figures(step, values);
    },
    async onEvaluation(step, evaluation) {
      await writeEvaluation(folder, step, evaluation);
      await metrics.append(step, evalMetrics(evaluation));
      parts.monitor.figures(step, evalMetrics(evaluation));
      if (evaluation.failed > 0)
        screen.print(`${evaluation.failed} held-out questions have no rollout: they count as found nothing`);
      screen.print(
        evaluationTable(config.eval.k, [
          { name: 'single-pass', figures: rankingFigures(parts.baseline) },
          { name: `step ${step}`, figures: evaluation },
        ]),
      );
    },
    async keep(checkpoint) {
      await writeCheckpoint(folder.checkpoints, checkpoint, parts.about);
      await pruneCheckpoints(folder.checkpoints, config.train.keep, checkpoint.progress.best?.step ?? null);
      // A run that is resumed takes the steps after its newest checkpoint again.
      await parts.pool.forget(checkpoint.progress.step);
    },
  };
  try {
    return await trainLoop(loop, start);
  } finally {
    bar.end();
    await metrics.close();
  }
}

/** The final report and the summary. */
async function report(parts: RunParts, end: Progress): Promise<void> {
  const { config, folder, baseline } = parts;
  const { report, table } = await reportRun({ ...parts, end });
  const { before, after, adapter } = report;
  const figures = { singlePass: baseline, before, after };
  const { standIns } = parts.environment;
  const seconds = Math.round(end.seconds * 10) / 10;
  const memory = heldMemory(parts.memory, parts.resumed && folder.summary);
  await writeSummary(
    folder.summary,
    { steps: end.step, seconds, eval: figures, adapter, memory, standIns },
    config.eval.k,
  );
  parts.screen.print(table);
  parts.screen.print(heldText(memory, config.learner.kind));
}
