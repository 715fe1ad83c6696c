/** A sequence under way: either a sample being drawn or a prompt being scored token by token. */
import { type Random, stream } from '../base/random.ts';
import type { AdapterSlot } from './adapter-slots.ts';
import { nucleus } from './nucleus.ts';
import { promptKey } from './prompt-cache.ts';
import type { EngineResult, GenerateJob } from './protocol.ts';
import { argmaxToken, rankOf, sampleToken } from './sample.ts';

interface SequenceBase {
  jobId: number;
  index: number;
  adapter: AdapterSlot;
  /** What the engine prefills: the prompt of a sample, the first token of a scored prompt. */
  prompt: number[];
  key: string;
  /** The temperature the engine applies; 1 for greedy samples and scores. */
  temperature: number;
  /** Tokens that the sequence can come to hold in the cache, at most. */
  maxLength: number;
  /** Tokens cached so far, and the token to be fed next. */
  length: number;
  next: number;
  cancelled: boolean;
}

export interface Sample extends SequenceBase {
  kind: 'sample';
  /** One uniform per sampled token; null is greedy. */
  random: Random | null;
  topP: number;
  topK: number;
  stopIds: Set<number>;
  maxTokens: number;
  ids: number[];
  logprobs: number[];
}

export interface Score extends SequenceBase {
  kind: 'score';
  /** The whole prompt; tokens from 1 on are fed, not sampled. */
  forced: number[];
  logprobs: number[];
  ranks: number[];
}

export type Sequence = Sample | Score;

/** The sequences of a job. Samples of one prompt share its key, so that it is prefilled once. */
export function sequencesOf(job: GenerateJob, adapter: AdapterSlot): Sequence[] {
  const stopIds = new Set(job.stopIds);
  const greedy = job.temperature === 0;
  const temperature = greedy ? 1 : job.temperature;
  const common = { jobId: job.id, adapter, length: 0, next: -1, cancelled: false };
  const sequences: Sequence[] = [];
  job.prompts.forEach((prompt, p) => {
    if (job.score) {
      const first = prompt.slice(0, 1);
      const key = promptKey(adapter.uid, job.salt, 1, first);
      const own = { prompt: first, key, temperature: 1, maxLength: prompt.length };
      sequences.push({
        ...common,
        ...own,
        kind: 'score',
        index: p,
        forced: prompt,
        logprobs: [],
        ranks: [],
      });
    }
    if (job.maxTokens === 0) return;
    const key = promptKey(adapter.uid, job.salt, temperature, prompt);
    for (let i = 0; i < job.n; i++) {
      const own = { prompt, key, temperature, maxLength: prompt.length + job.maxTokens };
      const random = greedy ? null : stream(job.seed + i, 'sample');
      const index = p * job.n + i;
      const { topP, topK, maxTokens } = job;
      const output = { topP, topK, maxTokens, ids: [], logprobs: [] };
      sequences.push({ ...common, ...own, ...output, kind: 'sample', index, random, stopIds });
    }
  });
  return sequences;
}

/**
 * Takes the distribution of the next token, `[vocab]` at `offset`. Returns the result when the sequence
 * has ended with this token, null when it wants another step.
 */
export function consume(
  sequence: Sequence,
  logprobs: Float32Array,
  offset: number,
  vocabulary: number,
): EngineResult | null {
  return sequence.kind === 'sample'
    ? consumeSample(sequence, logprobs, offset, vocabulary)
    : consumeScore(sequence, logprobs, offset, vocabulary);
}

function notFinite(sequence: Sequence): EngineResult {
  const message = `the model gave log-probabilities that are not finite (adapter ${sequence.adapter.name})`;
  return { kind: 'failed', id: sequence.jobId, message };
}

function consumeSample(
  sample: Sample,
  logprobs: Float32Array,
  offset: number,
  vocabulary: number,
): EngineResult | null {
  const { random, topP, topK } = sample;
  const cut = random !== null && (topP < 1 || topK > 0);
  const row = cut
    ? nucleus(logprobs, offset, vocabulary, topP, topK)
    : logprobs.subarray(offset, offset + vocabulary);
  const token = random ? sampleToken(row, 0, vocabulary, random.next()) : argmaxToken(row, 0, vocabulary);
  const logprob = token < 0 ? Number.NaN : row[token]!;
  if (!Number.isFinite(logprob)) return notFinite(sample);
  sample.ids.push(token);
  sample.logprobs.push(logprob);
  sample.next = token;
  const finish = sample.stopIds.has(token) ? 'stop' : sample.ids.length >= sample.maxTokens ? 'length' : null;
  if (!finish) return null;
  const { jobId: id, index, ids } = sample;
  return { kind: 'sample', id, index, ids, logprobs: sample.logprobs, finish };
}

function consumeScore(
  score: Score,
  row: Float32Array,
  offset: number,
  vocabulary: number,
): EngineResult | null {
  const { jobId: id, index, forced, logprobs, ranks } = score;
  const position = logprobs.length + 1;
  if (position < forced.length) {
    const token = forced[position]!;
    const logprob = row[offset + token]!;
    if (Number.isNaN(logprob)) return notFinite(score);
    logprobs.push(logprob);
    ranks.push(rankOf(row, offset, vocabulary, token));
    score.next = token;
  }
  return logprobs.length + 1 >= forced.length ? { kind: 'score', id, index, logprobs, ranks } : null;
}
