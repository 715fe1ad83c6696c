/**
 * One retraining job:
 *
 *   collect → train → evaluate both → decide → publish → history
 *
 * After each arrow the state is written down (`job.json`); every phase may be done again from its start, so a job
 * that dies is gone on with by the next one. What makes a promotion is one rename, of the pointer; what ends a
 * job, and uses up the files of the inbox, is its line in the history.
 */
import { basename, join } from 'node:path';
import { writeFileAtomic } from '../../base/atomic-write.ts';
import { messageOf, UserError } from '../../base/errors.ts';
import { jsonLine } from '../../base/jsonl.ts';
import { stream } from '../../base/random.ts';
import { version } from '../../base/version.ts';
import type { PolicyEvaluation } from '../../eval/evaluate-policy.ts';
import { beginJob } from './begin-job.ts';
import { decide } from './decide.ts';
import { aboutJob, type HistoryRecord, type Job, type JobAt } from './records.ts';
import {
  appendHistory,
  currentChampion,
  keepChampion,
  pointAt,
  readHistory,
  readJob,
  registryAt,
  removeJob,
} from './registry.ts';
import { lockRegistry } from './registry-lock.ts';
import { runConfigOf, settingsHash, withRetrain } from './run-config.ts';
import {
  append,
  isEnd,
  line,
  type RetrainEnd,
  type RetrainOptions,
  type RetrainTools,
  type Work,
  write,
} from './work.ts';

/**
 * Runs one job in this process, an unfinished one first where there is one. A job that finds the registry in use
 * ends as `skipped`.
 *
 * @throws what a phase throws, after a line `failed` in the history; the job stays, and the next one goes on.
 */
export async function retrain(options: RetrainOptions, tools: RetrainTools): Promise<RetrainEnd> {
  const config = withRetrain(options.config);
  const registry = registryAt(config.retrain.registry);
  const { fence, patienceMs } = options;
  const lock = await lockRegistry(registry.root, tools.now(), { fence, patienceMs });
  if ('heldBy' in lock) return skip(options, tools, `the registry is in use by ${lock.heldBy}`);
  const signal = AbortSignal.any([options.signal, lock.lost]);
  const work: Work = { config, options, tools, registry, lock, signal };
  try {
    return await run(work);
  } catch (error) {
    if (options.signal.aborted && error === options.signal.reason) return { kind: 'interrupted' };
    await recordFailure(work, error);
    throw error;
  } finally {
    lock.release();
  }
}

/** Ends a job before it began: another one is at work. */
export async function skip(
  options: Pick<RetrainOptions, 'config' | 'trigger'>,
  tools: RetrainTools,
  why: string,
): Promise<RetrainEnd> {
  const config = withRetrain(options.config);
  const record = line(config, options, tools, 'skipped', why);
  await appendHistory(registryAt(config.retrain.registry), record);
  return { kind: 'ended', record };
}

async function run(work: Work): Promise<RetrainEnd> {
  if (work.config.eval.choose === 'best')
    work.tools.log(
      'note: with eval.choose best the challenger is picked on the questions that it is then measured on: set last',
    );
  let job = await takeUp(work);
  if (job === null) {
    const begun = await beginJob(work);
    if ('kind' in begun) return { kind: 'ended', record: begun };
    job = begun;
  }
  if (job.phase === 'train') {
    const next = await train(work, job);
    if (next === null) return { kind: 'interrupted' };
    job = next;
  }
  if (job.phase === 'evaluate') job = await evaluate(work, job);
  return { kind: 'ended', record: await end(work, job) };
}

/** The unfinished job when it can be gone on with; null when a new one is to begin. */
async function takeUp(work: Work): Promise<Job | null> {
  const { config, options, tools, registry } = work;
  const job = readJob(registry);
  if (job === null) return null;
  if (readHistory(registry).some(({ kind, run }) => isEnd(kind) && run === job.run)) {
    // Killed between its last line and this.
    await removeJob(registry);
    return null;
  }
  const why = options.fresh
    ? 'given up by --fresh'
    : job.settingsHash !== settingsHash(config)
      ? 'the configuration was changed since it began'
      : null;
  if (why === null) {
    tools.log(`going on with ${job.run}, at: ${job.phase}`);
    return job;
  }
  await append(work, 'abandoned', why, { run: job.run });
  await removeJob(registry);
  return null;
}

/** Trains the challenger; null when the signal ended it. */
async function train(work: Work, job: JobAt<'train'>): Promise<JobAt<'evaluate'> | null> {
  const { config, registry, tools } = work;
  tools.log(`training ${job.run} from ${job.champion ?? 'the start that the configuration says'}`);
  const challenger = await tools.train(runConfigOf(config, registry, job), work.signal);
  if (challenger === null) {
    work.lock.check();
    return null;
  }
  const next: JobAt<'evaluate'> = { ...job, phase: 'evaluate', challenger };
  await write(work, next);
  return next;
}

/** Champion and challenger on the held-out questions, and the decision. */
async function evaluate(work: Work, job: JobAt<'evaluate'>): Promise<JobAt<'end'>> {
  const { config, registry, tools, lock, signal } = work;
  const run = runConfigOf(config, registry, job);
  const champion =
    job.champion === null ? (config.lora.start ?? null) : join(registry.champions, job.champion);
  const of = async (who: 'champion' | 'challenger', adapter: string | null): Promise<PolicyEvaluation> => {
    signal.throwIfAborted();
    tools.log(`evaluating the ${who}, ${adapter === null ? 'the base model' : basename(adapter)}`);
    const evaluation = await tools.evaluate(run, adapter, signal);
    // A question that had no rollout counts as found nothing, which would decide by the endpoint's health.
    if (evaluation.failed > 0)
      throw new UserError(
        `${evaluation.failed} of ${evaluation.perQuestion.length} held-out questions have no rollout of the ${who}`,
        job.run,
        'check the policy endpoint; the next job evaluates again',
      );
    lock.check();
    await writeFileAtomic(join(registry.reports, job.run, `${who}.json`), jsonLine(evaluation));
    return evaluation;
  };
  const before = await of('champion', champion);
  const after = await of('challenger', job.challenger);
  const random = stream(config.run.seed, 'retrain', job.run);
  const { promote, why, figures } = decide(before, after, config.retrain.promote, config.eval.k, random);
  const next: JobAt<'end'> = { ...job, phase: 'end', figures, promote, why };
  await write(work, next);
  return next;
}

/** Publishes, where that was decided, and closes the job. */
async function end(work: Work, job: JobAt<'end'>): Promise<HistoryRecord> {
  const { registry, tools, lock } = work;
  const name = basename(job.challenger);
  const now = currentChampion(registry);
  // A champion that was rolled back meanwhile is not what the challenger was measured against.
  const moved = now !== job.champion && now !== name;
  const promote = job.promote && !moved;
  const why = moved && job.promote ? `the champion changed during the job, to ${now ?? 'none'}` : job.why;
  if (promote) {
    lock.check();
    const { run, figures, trainingSet, champion } = job;
    const about = { run, before: champion, figures, trainingSet, lexpo: version() };
    await keepChampion(registry, name, job.challenger, about);
    tools.log(`kept ${name} among the champions`);
    const serving = tools.serving(work.config);
    await serving?.serve(registry, name, now);
    lock.check();
    await pointAt(registry, name);
    tools.log(`the champion is ${name}`);
    // Whoever read the pointer a moment ago still asks for the one before.
    await serving?.retire(registry, [name, champion]);
  }
  return close(work, job, promote ? 'promoted' : 'refused', why);
}

async function close(
  work: Work,
  job: JobAt<'end'>,
  kind: 'promoted' | 'refused',
  why: string,
): Promise<HistoryRecord> {
  const after = kind === 'promoted' ? basename(job.challenger) : currentChampion(work.registry);
  const record = await append(work, kind, why, { ...aboutJob(job), after });
  work.tools.log(`${job.run} is in the history: ${kind}`);
  await removeJob(work.registry);
  return record;
}

/** Says in the history that the job stopped, where that can be said: not when the registry itself is what fails. */
async function recordFailure(work: Work, error: unknown): Promise<void> {
  try {
    const run = readJob(work.registry)?.run;
    await append(work, 'failed', messageOf(error), run === undefined ? {} : { run });
  } catch (second) {
    work.tools.log(`the history could not be written: ${messageOf(second)}`);
  }
}
