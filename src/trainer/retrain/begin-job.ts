/** The first phase of a retraining job: the inbox is read, and what the job works on is fixed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { writeJsonLines } from '../../base/jsonl.ts';
import { loadCorpus } from '../../env/corpus.ts';
import { loadQueries } from '../../env/queries.ts';
import { trainingGold } from '../prepare.ts';
import { runFolder } from '../run-folder.ts';
import { readInbox, sortPairs } from './collect.ts';
import type { HistoryRecord, JobAt } from './records.ts';
import { currentChampion, keepSet, readHistory, setFile } from './registry.ts';
import { jobName, settingsHash } from './run-config.ts';
import { append, isEnd, type Work, write } from './work.ts';

/** Reads the inbox and fixes the job; a record when there is nothing to do. */
export async function beginJob(work: Work): Promise<JobAt<'train'> | HistoryRecord> {
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
    train: await loadQueries(trainFile, corpus, trainingGold(config.env)),
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
    `${files.length} new file${files.length === 1 ? '' : 's'}: ${fresh} new pairs (${pairs.heldOut} of them held out), ${pairs.known} known already, ${pairs.refused} refused`,
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
