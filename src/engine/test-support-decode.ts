/** For tests of decoding: a cache as a server keeps it, and decoding along given tokens. */
import type { DecodeSession } from './decode-session.ts';
import type { TensorMap } from './types.ts';

/** A cache of `capacity` columns for n rows, filled from a prefill. */
export function cacheFrom(
  session: DecodeSession,
  prefilled: { keys: Float32Array[]; values: Float32Array[]; length: number },
  prompts: Int32Array[],
  capacity: number,
) {
  const { kvHeads, headDim } = session;
  const grow = (from: Float32Array): Float32Array => {
    const to = new Float32Array(prompts.length * kvHeads * capacity * headDim);
    prompts.forEach((prompt, row) => {
      for (let head = 0; head < kvHeads; head++) {
        const at = row * kvHeads + head;
        const start = at * prefilled.length * headDim;
        to.set(from.subarray(start, start + prompt.length * headDim), at * capacity * headDim);
      }
    });
    return to;
  };
  return { keys: prefilled.keys.map(grow), values: prefilled.values.map(grow) };
}

/** Puts the new columns of a step into the cache. */
export function writeColumns(
  session: DecodeSession,
  cache: Float32Array[],
  columns: Float32Array[],
  positions: Int32Array,
  capacity: number,
): void {
  const { kvHeads, headDim } = session;
  cache.forEach((to, layer) => {
    positions.forEach((position, row) => {
      for (let head = 0; head < kvHeads; head++) {
        const at = row * kvHeads + head;
        const column = columns[layer]!.subarray(at * headDim, (at + 1) * headDim);
        to.set(column, (at * capacity + position) * headDim);
      }
    });
  });
}

/**
 * Log-probability (nats) of every token after each sample's prompt, of the prompt's end and then of one step a
 * token, each fed with the sample's own tokens.
 */
export async function forcedLogprobs(
  session: DecodeSession,
  samples: { ids: number[]; promptLength: number }[],
  params: TensorMap | null,
  temperature: number,
): Promise<number[][]> {
  const prompts = samples.map((s) => Int32Array.from(s.ids.slice(0, s.promptLength)));
  const heat = new Float32Array(samples.length).fill(temperature);
  const first = await session.prefill(prompts, params, heat);
  const capacity = Math.ceil(Math.max(...samples.map((s) => s.ids.length)) / 64) * 64;
  const cache = cacheFrom(session, first, prompts, capacity);
  const out: number[][] = samples.map(() => []);
  let { logprobs } = first;
  for (let i = 0; i < Math.max(...samples.map((s) => s.ids.length - s.promptLength)); i++) {
    // a sample that is done goes on with its last token, unread
    const at = samples.map((s) => Math.min(s.promptLength + i, s.ids.length - 1));
    const tokens = Int32Array.from(samples, (s, row) => s.ids[at[row]!]!);
    samples.forEach((s, row) => {
      if (s.promptLength + i < s.ids.length)
        out[row]!.push(logprobs[row * session.vocabSize + tokens[row]!]!);
    });
    const positions = Int32Array.from(at);
    const step = await session.step({ tokens, positions, capacity, ...cache, temperature: heat }, params);
    writeColumns(session, cache.keys, step.newKeys, positions, capacity);
    writeColumns(session, cache.values, step.newValues, positions, capacity);
    logprobs = step.logprobs;
  }
  return out;
}
