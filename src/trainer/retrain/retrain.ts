/**
 * One retraining job:
 *
 *   collect → train → evaluate both → decide → publish → history
 *
 * After each arrow the state is written down (`job.json`); every phase may be done again from its start, so a job
 * that dies is gone on with by the next one. What makes a promotion is one rename, of the pointer; what ends a
 * job, and uses up the files of the inbox, is its line in the history.
 */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { writeFileAtomic } from '../../base/atomic-write.ts';
import { messageOf, UserError } from '../../base/errors.ts';
import { jsonLine, writeJsonLines } from '../../base/jsonl.ts';
import { stream } from '../../base/random.ts';
import { version } from '../../base/version.ts';
import type { Config } from '../../config/schema.ts';
import { loadCorpus } from '../../env/corpus.ts';
import { loadQueries } from '../../env/queries.ts';
import type { PolicyEvaluation } from '../../eval/evaluate-policy.ts';
import { runFolder } from '../run-folder.ts';
import { readInbox, sortPairs } from './collect.ts';
import { decide } from './decide.ts';
import type { HistoryRecord, Job, JobAt, Trigger } from './records.ts';
import {
  appendHistory,
  currentChampion,
  keepChampion,
  keepSet,
  pointAt,
  type Registry,
  readHistory,
  readJob,
  registryAt,
  removeJob,
  setFile,
  writeJob,
} from './registry.ts';
import { lockRegistry, type RegistryLock } from './registry-lock.ts';
import {
  fullHash,
  jobName,
  type RetrainConfig,
  runConfigOf,
  settingsHash,
  withRetrain,
} from './run-config.ts';

/** What a job has done by others: the trainer, the policy service, the clock. */
export interface RetrainTools {
  /** Trains, from where an earlier attempt stopped; the folder of the chosen adapter, or null when `signal` ended it. */
  train(config: Config, signal: AbortSignal): Promise<string | null>;
  /** Greedy episodes on the held-out questions of `config` with an adapter's folder; null: the base model. */
  evaluate(config: Config, adapter: string | null, signal: AbortSignal): Promise<PolicyEvaluation>;
  now(): Date;
  host: string;
  log(line: string): void;
}

export interface RetrainOptions {
  config: Config;
  trigger: Trigger;
  /** Give an unfinished job up instead of going on with it. */
  fresh: boolean;
  /** The fence that a lock outside of the registry gave. */
  fence?: number | undefined;
  /** How long to wait for a registry that is in use: of a holder that died elsewhere only its silence tells. */
  patienceMs?: number;
  signal: AbortSignal;
}

/** The job's last line in the history, or `interrupted`: the signal ended it, and the next job goes on. */
export type RetrainEnd = { kind: 'ended'; record: HistoryRecord } | { kind: 'interrupted' };

interface Work {
  config: RetrainConfig;
  options: RetrainOptions;
  tools: RetrainTools;
  registry: Registry;
  lock: RegistryLock;
  signal: AbortSignal;
}

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
  let job = await takeUp(work);
  if (job === null) {
    const begun = await collect(work);
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

const isEnd = (kind: HistoryRecord['kind']): boolean => kind === 'promoted' || kind === 'refused';

/** Reads the inbox and fixes the job; a record when there is nothing to do. */
async function collect(work: Work): Promise<JobAt<'train'> | HistoryRecord> {
  const { config, options, tools, registry, lock } = work;
  const { inbox, minNewPairs, holdout } = config.retrain;
  const history = readHistory(registry);
  const ended = history.filter(({ kind }) => isEnd(kind));
  const done = new Set(ended.flatMap((record) => (record.inbox ?? []).map(({ sha256 }) => sha256)));
  const last = ended.at(-1);
  const corpus = await loadCorpus(config.data.corpus);
  const trainFile = last?.trainingSet ? setFile(registry, last.trainingSet.hash) : config.data.train;
  const heldOutFile =
    holdout > 0 && last?.heldOut ? setFile(registry, last.heldOut.hash) : config.data.validation;
  const sets = {
    train: await loadQueries(trainFile, corpus),
    heldOut: await loadQueries(heldOutFile, corpus),
  };
  const { files, lines } = await readInbox(inbox, done);
  const sorted = sortPairs(lines, sets, corpus, holdout);
  const runs = new Set(history.map((record) => record.run));
  const isTaken = (run: string): boolean =>
    runs.has(run) || existsSync(runFolder({ run: { ...config.run, name: run } }).root);
  const name = jobName(config.run.name, tools.now(), isTaken);
  const pairs = {
    train: sorted.train.length,
    heldOut: sorted.heldOut.length,
    known: sorted.known,
    refused: sorted.refused.length,
  };
  const fresh = pairs.train + pairs.heldOut;
  tools.log(
    `${files.length} new files: ${fresh} new pairs (${pairs.heldOut} of them held out), ${pairs.known} known already, ${pairs.refused} refused`,
  );
  lock.check();
  if (sorted.refused.length > 0) {
    const report = join(registry.reports, name, 'refused.jsonl');
    await writeJsonLines(report, sorted.refused);
    for (const { file, line: at, reason } of sorted.refused.slice(0, SHOWN))
      tools.log(`refused ${file}${at > 0 ? `:${at}` : ''}: ${reason}`);
    tools.log(`every refused pair: ${report}`);
  }
  if (fresh < minNewPairs) {
    const why = `${fresh} new pairs, retrain.minNewPairs is ${minNewPairs}`;
    return append(work, 'nothing', why, { run: name, pairs });
  }
  const train = [...sets.train, ...sorted.train];
  const heldOut = [...sets.heldOut, ...sorted.heldOut];
  const job: JobAt<'train'> = {
    phase: 'train',
    format: 1,
    run: name,
    trigger: options.trigger,
    startedAt: tools.now().toISOString(),
    settingsHash: settingsHash(config),
    champion: currentChampion(registry),
    inbox: files,
    pairs,
    trainingSet: { hash: await keepSet(registry, train), questions: train.length },
    heldOut: { hash: await keepSet(registry, heldOut), questions: heldOut.length },
  };
  await write(work, job);
  tools.log(`job ${name}: ${train.length} training and ${heldOut.length} held-out questions`);
  return job;
}

/** So many refused pairs are told on the screen. */
const SHOWN = 10;

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
    lock.check();
    await pointAt(registry, name);
    tools.log(`the champion is ${name}`);
  }
  return close(work, job, promote ? 'promoted' : 'refused', why);
}

async function close(
  work: Work,
  job: JobAt<'end'>,
  kind: 'promoted' | 'refused',
  why: string,
): Promise<HistoryRecord> {
  const { run, figures, trainingSet, heldOut, pairs, inbox } = job;
  const name = basename(job.challenger);
  const record = await append(work, kind, why, {
    run,
    before: job.champion,
    after: kind === 'promoted' ? name : currentChampion(work.registry),
    challenger: name,
    figures,
    trainingSet,
    heldOut,
    pairs,
    inbox,
  });
  work.tools.log(`${run} is in the history: ${kind}`);
  await removeJob(work.registry);
  return record;
}

async function write({ registry, lock, tools }: Work, job: Job): Promise<void> {
  lock.check();
  await writeJob(registry, job);
  tools.log(`${job.run}: next is ${job.phase}`);
}

function line(
  config: RetrainConfig,
  { trigger }: Pick<RetrainOptions, 'trigger'>,
  tools: RetrainTools,
  kind: HistoryRecord['kind'],
  why: string,
): HistoryRecord {
  return {
    at: tools.now().toISOString(),
    kind,
    why,
    by: { trigger, host: tools.host },
    lexpo: version(),
    configHash: fullHash(config),
  };
}

async function append(
  { config, options, tools, registry, lock }: Work,
  kind: HistoryRecord['kind'],
  why: string,
  about: Partial<HistoryRecord>,
): Promise<HistoryRecord> {
  lock.check();
  const record = { ...line(config, options, tools, kind, why), ...about };
  await appendHistory(registry, record);
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
