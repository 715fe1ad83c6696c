/**
 * `lexpo synthesize`: a teacher plays episodes of the training questions against the real tools; what is right
 * and clean becomes a file that `lexpo sft` learns from. (Legal-R1's SFT data is made so; its filter compares one
 * of fourteen tasks with the test file, this one every source.)
 */
import { mean } from '../../base/statistics.ts';
import { type Fingerprints, fingerprint, worstOverlap } from '../../env/contamination.ts';
import { type DemonstratedEpisode, recordedPolicy } from '../../env/demonstration.ts';
import type { ChatModel } from '../../env/lawyer/types.ts';
import type { Query } from '../../env/types.ts';
import type { Ledger } from '../../reward/ledger-schema.ts';
import type { Environment } from '../environment.ts';
import { type DemonstrationRecord, demonstrationRecord } from './demonstration-file.ts';
import { hasFailed, type Played, playEpisodes } from './play-episodes.ts';

export interface Teacher {
  /** As it stands in records and reports; a stand-in says that it is one. */
  name: string;
  /** Null: the environment's own player, which knows the gold. */
  chat: ChatModel | null;
}

export interface SynthesizeOptions {
  /** Episodes a question, ≥ 1. */
  rollouts: number;
  seed: number;
  /** Least worth of an episode's result that is kept, [0, 1]. */
  accept: number;
  /** Characters of a fingerprint, and the share of a test text's fingerprints from which a text is refused. */
  ngram: number;
  maxOverlap: number;
  /** Of the teacher's calls, when it is a model. */
  maxTokens: number;
  temperature: number;
  concurrency: number;
  signal: AbortSignal;
  /** Told after each question. */
  onQuestion(done: number, total: number): void;
}

/** A text that training must not see, and where it stands. */
export interface TestText {
  file: string;
  id: string;
  text: string;
}

/** One source of training text, checked against the test texts. */
export interface Source {
  name: string;
  texts: readonly { id: string; text: string }[];
}

export interface Contamination {
  source: string;
  texts: number;
  refused: { id: string; file: string; test: string; share: number }[];
}

export interface SynthesisReport {
  teacher: string;
  questions: number;
  /** Of them without gold, which a stand-in for the teacher cannot play. */
  unplayable: number;
  /** Episodes played, and what became of them. */
  episodes: {
    played: number;
    kept: number;
    failed: number;
    invalid: number;
    wrong: number;
    contaminated: number;
  };
  /** The first failures' reasons. */
  failures: string[];
  /** Why episodes ended invalid, the most frequent first. */
  invalid: { reason: string; episodes: number }[];
  meanWorth: { played: number; kept: number };
  contamination: {
    ngram: number;
    maxOverlap: number;
    tests: { file: string; texts: number }[];
    sources: Contamination[];
  };
}

/** Which texts of a source hold too much of a test text. */
function contaminationOf(
  { name, texts }: Source,
  tests: readonly TestText[],
  prints: Fingerprints,
  maxOverlap: number,
): Contamination {
  const refused = texts.flatMap(({ id, text }) => {
    const worst = worstOverlap(text, prints);
    if (worst === null || worst.share < maxOverlap) return [];
    const { file, id: test } = tests[worst.test]!;
    return [{ id, file, test, share: worst.share }];
  });
  return { source: name, texts: texts.length, refused };
}

/** So many failures are told by their reason. */
const TOLD_FAILURES = 5;

/**
 * Plays, scores and filters. `sources` are further texts that the teacher's world is made of (precedents), which are
 * told; the training questions, what the teacher wrote and the precedents that it was shown are checked as well, and
 * leave no record. Not the statutes: a test text may quote the law. Records in order of question and rollout.
 *
 * @throws UserError when every episode failed (`playEpisodes`); `signal.reason` when it fires.
 */
export async function synthesize(
  environment: Environment,
  teacher: Teacher,
  queries: readonly Query[],
  tests: readonly TestText[],
  sources: readonly Source[],
  options: SynthesizeOptions,
): Promise<{ records: DemonstrationRecord[]; report: SynthesisReport }> {
  const { ngram, maxOverlap, accept } = options;
  const prints = fingerprint(
    tests.map(({ text }) => text),
    ngram,
  );
  const check = (source: Source): Contamination => contaminationOf(source, tests, prints, maxOverlap);
  const questions = check({
    name: 'training questions',
    texts: queries.map(({ id, query }) => ({ id, text: query })),
  });
  const refused = new Set(questions.refused.map(({ id }) => id));
  const playable = queries.filter(({ gold }) => teacher.chat !== null || gold.length > 0);
  const clean = playable.filter(({ id }) => !refused.has(id));
  const played = await playEpisodes(
    clean,
    (query, rollout, signal) => playScored(environment, teacher, query, rollout, { ...options, signal }),
    { ...options, player: teacher.name, fix: 'check the teacher and the tools' },
  );
  const { episodes, failures, invalid, worths, good } = sorted(played, environment, teacher, accept);
  const nameOf = ({ queryId, rollout }: DemonstrationRecord): string => `${queryId}/${rollout}`;
  const written = check({
    name: "the teacher's calls",
    texts: good.map(({ record }) => ({
      id: nameOf(record),
      text: record.calls.map(({ text }) => text).join('\n'),
    })),
  });
  const shown = check({
    name: 'precedents shown to it',
    texts: good.map(({ record }) => ({ id: nameOf(record), text: precedentsShown(record) })),
  });
  const dirty = new Set([...written.refused, ...shown.refused].map(({ id }) => id));
  const kept = good.filter(({ record }) => !dirty.has(nameOf(record)));
  episodes.contaminated = good.length - kept.length;
  episodes.kept = kept.length;
  const meanOf = (values: number[]): number => (values.length === 0 ? 0 : mean(values));
  const perFile = new Map<string, number>();
  for (const { file } of tests) perFile.set(file, (perFile.get(file) ?? 0) + 1);
  const report: SynthesisReport = {
    teacher: teacher.name,
    questions: queries.length,
    unplayable: queries.length - playable.length,
    episodes,
    failures,
    invalid,
    meanWorth: { played: meanOf(worths), kept: meanOf(kept.map(({ worth }) => worth)) },
    contamination: {
      ngram,
      maxOverlap,
      tests: [...perFile].map(([file, texts]) => ({ file, texts })),
      sources: [questions, ...sources.map(check), written, shown],
    },
  };
  return { records: kept.map(({ record }) => record), report };
}

/** Episodes by what became of them; what is right still awaits the check of its texts. */
function sorted(
  played: readonly Played<Scored>[],
  environment: Environment,
  { name }: Teacher,
  accept: number,
) {
  const episodes = { played: played.length, kept: 0, failed: 0, invalid: 0, wrong: 0, contaminated: 0 };
  const failures: string[] = [];
  const reasons = new Map<string, number>();
  const worths: number[] = [];
  const good: { record: DemonstrationRecord; worth: number }[] = [];
  for (const result of played) {
    if (hasFailed(result)) {
      episodes.failed++;
      if (failures.length < TOLD_FAILURES) failures.push(result.failure);
      continue;
    }
    const { one, ledger } = result;
    const worth = environment.worth(ledger);
    worths.push(worth);
    const { kind, reason } = one.episode.termination;
    if (kind === 'invalid') {
      episodes.invalid++;
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    } else if (worth < accept) episodes.wrong++;
    else good.push({ record: demonstrationRecord(one, name, ledger), worth });
  }
  const invalid = [...reasons]
    .map(([reason, times]) => ({ reason, episodes: times }))
    .sort((a, b) => b.episodes - a.episodes);
  return { episodes, failures, invalid, worths, good };
}

const precedentsShown = ({ rounds }: DemonstrationRecord): string =>
  rounds
    .flatMap(({ evidence = [] }) => evidence)
    .filter(({ source }) => source === 'precedent')
    .map(({ text }) => text)
    .join('\n');

interface Scored {
  one: DemonstratedEpisode;
  ledger: Ledger;
}

/** One episode of the teacher, or of the environment's own player, and its reward. */
async function playScored(
  environment: Environment,
  { chat }: Teacher,
  query: Query,
  rollout: number,
  { seed, maxTokens, temperature, signal }: SynthesizeOptions,
): Promise<Scored> {
  const byTeacher = async (model: ChatModel): Promise<DemonstratedEpisode> => {
    // Named, a sample is kept like any answer: a synthesis that was stopped asks only for the rest.
    const sampleOf = (callIndex: number) =>
      temperature > 0 ? { sample: [seed, query.id, rollout, callIndex].join('/') } : {};
    const { policy, calls } = recordedPolicy(query.id, ({ messages, callIndex }) => {
      signal.throwIfAborted();
      return model.chat(messages, { maxTokens, temperature, ...sampleOf(callIndex) });
    });
    return { queryId: query.id, rollout, calls, episode: await environment.runEpisode(query, policy) };
  };
  const one =
    chat === null
      ? await environment.demonstrate(query, { rollout, seed, judged: true })
      : await byTeacher(chat);
  return { one, ledger: await environment.score(one.episode, query) };
}
