/**
 * Continuous batching (Yu et al. 2022, Orca): every tick admits what waits, prefills each distinct prompt
 * of the admission once, then moves every running sequence one token on. A sequence that ends leaves at
 * once and its row is filled by another.
 *
 * Left out: preemption (admission reserves what a sequence can come to need) and chunked prefill (prompts are
 * short).
 */
import type { AdapterSlot, AdapterSlots } from './adapter-slots.ts';
import { attempt } from './attempt.ts';
import { type Batch, createBatches } from './batches.ts';
import { capacityFor, type KvShape, rowBytes, sliceRow, views, writeColumns } from './kv-cache.ts';
import { prefillChunks } from './prefill-chunks.ts';
import { type CachedPrompt, createPromptCache } from './prompt-cache.ts';
import type { AdapterUid, EngineLimits, EngineResult, EngineStats, GenerateJob } from './protocol.ts';
import { consume, type Sequence, sequencesOf } from './sequence.ts';

/** A prompt to prefill, and who waits for it. */
interface Missing {
  prompt: number[];
  key: string;
  temperature: number;
  sequences: Sequence[];
}

export interface Scheduler {
  submit(job: GenerateJob): void;
  cancel(jobId: number): void;
  /** One admission and one token for every running sequence. */
  tick(): Promise<void>;
  busy(): boolean;
  /** Results since the last call, in the order in which they came about. */
  takeResults(): EngineResult[];
  forgetAdapter(uid: AdapterUid): void;
  stats(): Omit<EngineStats, 'adapters'>;
}

export function createScheduler(
  shape: KvShape & { vocabSize: number },
  limits: Omit<EngineLimits, 'maxLoraRank'>,
  slots: Pick<AdapterSlots, 'get' | 'release'>,
): Scheduler {
  const vocabulary = shape.vocabSize;
  const prompts = createPromptCache(limits.promptCacheBytes);
  const batches = createBatches(shape, limits.cacheBytes);
  const jobs = new Map<number, Set<Sequence>>();
  let waiting: Sequence[] = [];
  let results: EngineResult[] = [];
  let running = 0;
  let reserved = 0;
  const counters = { prefilled: 0, prefixHits: 0, steps: 0, sampledTokens: 0 };
  const tokens = new Int32Array(limits.maxRows);
  const positions = new Int32Array(limits.maxRows);
  const temperatures = new Float32Array(limits.maxRows);

  const reserveOf = (sequence: Sequence): number => rowBytes(shape, capacityFor(sequence.maxLength));

  /** The sequence is over, whatever the reason; its row, if it has one, is the caller's to free. */
  function settle(sequence: Sequence): void {
    const job = jobs.get(sequence.jobId);
    job?.delete(sequence);
    if (job?.size === 0) jobs.delete(sequence.jobId);
    slots.release(sequence.adapter);
  }

  function leave(sequence: Sequence): void {
    running--;
    reserved -= reserveOf(sequence);
    settle(sequence);
  }

  /** A failure ends its whole job: the other sequences of it are cancelled. */
  function fail(sequence: Sequence, message: string): void {
    if (!sequence.cancelled) results.push({ kind: 'failed', id: sequence.jobId, message });
    for (const other of jobs.get(sequence.jobId) ?? []) other.cancelled = true;
  }

  /** Gives the sequence its next-token distribution. True when it wants to go on. */
  function advance(sequence: Sequence, logprobs: Float32Array, offset: number): boolean {
    if (sequence.cancelled) return false;
    if (sequence.kind === 'sample') counters.sampledTokens++;
    const result = consume(sequence, logprobs, offset, vocabulary);
    if (result?.kind === 'failed') fail(sequence, result.message);
    else if (result) results.push(result);
    return result === null;
  }

  /** From the head of the queue, in order, what the limits allow; at least one when nothing runs. */
  function takeAdmissible(): Sequence[] {
    const admitted: Sequence[] = [];
    let taken = 0;
    for (const sequence of waiting) {
      if (!sequence.cancelled) {
        const full = running >= limits.maxRows || reserved + reserveOf(sequence) > limits.cacheBytes;
        if (running > 0 && full) break;
        running++;
        reserved += reserveOf(sequence);
        admitted.push(sequence);
      } else settle(sequence);
      taken++;
    }
    if (taken > 0) waiting = waiting.slice(taken);
    return admitted;
  }

  function start(sequence: Sequence, prompt: CachedPrompt): void {
    sequence.length = prompt.row.length;
    if (advance(sequence, prompt.logprobs, 0)) batches.place(sequence, prompt.row);
    else leave(sequence);
  }

  async function prefill(adapter: AdapterSlot, missing: Missing[]): Promise<void> {
    const ids = missing.map(({ prompt }) => Int32Array.from(prompt));
    const temperature = Float32Array.from(missing, (m) => m.temperature);
    const out = await attempt(() => adapter.session.prefill(ids, adapter.params, temperature));
    if (out.kind === 'error') {
      for (const sequence of missing.flatMap((m) => m.sequences)) {
        fail(sequence, `prefill failed: ${out.message}`);
        leave(sequence);
      }
      return;
    }
    const planes = [...out.value.keys, ...out.value.values];
    counters.prefilled += missing.length;
    missing.forEach(({ prompt, key, sequences }, i) => {
      const row = {
        length: prompt.length,
        planes: sliceRow(planes, shape, i, out.value.length, prompt.length),
      };
      const logprobs = out.value.logprobs.slice(i * vocabulary, (i + 1) * vocabulary);
      const cached = { adapter: adapter.uid, row, logprobs };
      prompts.put(key, cached);
      for (const sequence of sequences) start(sequence, cached);
    });
  }

  async function admit(): Promise<void> {
    const missing = new Map<AdapterSlot, Map<string, Missing>>();
    for (const sequence of takeAdmissible()) {
      const cached = prompts.get(sequence.key);
      if (cached) {
        counters.prefixHits++;
        start(sequence, cached);
        continue;
      }
      const { adapter, key, prompt, temperature } = sequence;
      const ofAdapter = missing.get(adapter) ?? new Map<string, Missing>();
      missing.set(adapter, ofAdapter);
      const same = ofAdapter.get(key);
      if (same) {
        counters.prefixHits++;
        same.sequences.push(sequence);
      } else ofAdapter.set(key, { prompt, key, temperature, sequences: [sequence] });
    }
    for (const [adapter, ofAdapter] of missing) {
      for (const chunk of prefillChunks([...ofAdapter.values()], limits.prefillTokens)) {
        await prefill(adapter, chunk);
      }
    }
  }

  async function step(batch: Batch): Promise<void> {
    for (let r = batch.sequences.length - 1; r >= 0; r--) {
      const sequence = batch.sequences[r]!;
      if (!sequence.cancelled) continue;
      batches.remove(batch, r);
      leave(sequence);
    }
    const rows = batch.sequences.length;
    if (rows === 0) return;
    batch.sequences.forEach((sequence, r) => {
      tokens[r] = sequence.next;
      positions[r] = sequence.length;
      temperatures[r] = sequence.temperature;
    });
    const input = {
      tokens: tokens.subarray(0, rows),
      positions: positions.subarray(0, rows),
      temperature: temperatures.subarray(0, rows),
      capacity: batch.kv.capacity,
      ...views(batch.kv),
    };
    const out = await attempt(() => batch.adapter.session.step(input, batch.adapter.params));
    if (out.kind === 'error') {
      for (const sequence of batch.sequences) {
        fail(sequence, `decode step failed: ${out.message}`);
        leave(sequence);
      }
      batch.sequences = [];
      batch.kv.rows = 0;
      return;
    }
    const { logprobs, newKeys, newValues } = out.value;
    counters.steps++;
    writeColumns(batch.kv, [...newKeys, ...newValues], input.positions);
    // From the last row down: a row that leaves is filled by one already seen to.
    for (let r = rows - 1; r >= 0; r--) {
      const sequence = batch.sequences[r]!;
      sequence.length++;
      if (!advance(sequence, logprobs, r * vocabulary)) {
        batches.remove(batch, r);
        leave(sequence);
      } else if (sequence.length === batch.kv.capacity) batches.extend(batch, r);
    }
  }

  return {
    submit(job) {
      const adapter = slots.get(job.adapter);
      if (!adapter || adapter.retired) {
        results.push({ kind: 'failed', id: job.id, message: `adapter ${job.adapter} is not loaded` });
        return;
      }
      const sequences = sequencesOf(job, adapter);
      adapter.uses += sequences.length;
      jobs.set(job.id, new Set(sequences));
      for (const sequence of sequences) waiting.push(sequence);
    },
    cancel(jobId) {
      for (const sequence of jobs.get(jobId) ?? []) sequence.cancelled = true;
    },
    async tick() {
      await admit();
      for (const batch of batches.list()) await step(batch);
      batches.sweep();
    },
    busy: () => waiting.length > 0 || running > 0,
    takeResults() {
      const taken = results;
      results = [];
      return taken;
    },
    forgetAdapter: (uid) => prompts.dropAdapter(uid),
    stats: () => ({ waiting: waiting.length, running, promptCacheBytes: prompts.bytes(), ...counters }),
  };
}
