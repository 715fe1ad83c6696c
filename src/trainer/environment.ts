/**
 * What a policy acts in, as the trainer sees it: episodes, their reward, and demonstrations of them. LegalMALR
 * and Legal-R1 differ in this alone; rollouts, learner, publishing and loop are the same for both.
 */
import type { Config } from '../config/schema.ts';
import type { Corpus } from '../env/corpus.ts';
import type { DemonstratedEpisode } from '../env/demonstration.ts';
import type { Episode } from '../env/episode.ts';
import type { PrecedentSet } from '../env/lawyer/precedents/precedent-set.ts';
import type { Bm25Retriever } from '../env/retrieval/bm25.ts';
import type { Policy, Query } from '../env/types.ts';
import type { Reference } from '../reward/lawyer/alignment.ts';
import type { Ledger } from '../reward/ledger-schema.ts';
import { lawyerEnvironment } from './lawyer-environment.ts';
import { malrEnvironment } from './malr-environment.ts';

export interface Environment {
  /** The first stage over the corpus; a question searched as it stands is what every policy is held against. */
  retriever: Bm25Retriever;
  /** Rejects when the policy or a tool fails: such an episode has no result. */
  runEpisode(query: Query, policy: Policy): Promise<Episode>;
  /** Rejects with a RolloutFailure when something that judges fails: never a reward of 0 for that. */
  score(episode: Episode, query: Query): Promise<Ledger>;
  /**
   * An episode of a question with gold by a teacher that knows it. The same seed and rollout give the same. Rejects
   * when a tool fails.
   */
  demonstrate(query: Query, options: DemonstrateOptions): Promise<DemonstratedEpisode>;
  /** How right an episode's result is, in [0, 1], read from its ledger: what demonstrations are chosen by. */
  worth(ledger: Ledger): number;
  /** What stands in for a model that was not given: a sentence each, told in log, summary and report. */
  standIns: readonly string[];
}

export interface DemonstrateOptions {
  /** Which of the question's episodes, from 0. */
  rollout: number;
  seed: number;
  /** Whether the judge is asked: an episode that is to be scored needs its answer, one to learn from does not. */
  judged: boolean;
}

export interface EnvironmentData {
  corpus: Corpus;
  /** Judgments, where the configuration names some. */
  precedents?: PrecedentSet | undefined;
  /** A teacher's searches by question, where `sft.demonstrations` names a file of them. */
  references?: ReadonlyMap<string, Reference> | undefined;
}

export interface EnvironmentOptions {
  /** Instead of the anchor's: weight of the rewrite's terms in a search. */
  rewriteWeight?: number;
  /** Another environment over the same corpus, whose index is taken. */
  like?: Pick<Environment, 'retriever'>;
  /** Told what is worth knowing and ends nothing: a kept answer that is damaged. */
  say?: (line: string) => void;
}

/** The environment that the configuration names. */
export function createEnvironment(
  config: Config,
  data: EnvironmentData,
  options: EnvironmentOptions = {},
): Environment {
  switch (config.env.kind) {
    case 'malr':
      return malrEnvironment(config, data, options);
    case 'lawyer':
      return lawyerEnvironment(config, data, options);
  }
}
