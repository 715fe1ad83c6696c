/** Embeddings from any OpenAI-compatible endpoint, in batches, checked. */
import { z } from 'zod';
import type { Embedder } from '../env/retrieval/hybrid.ts';
import { type AssistantOptions, createAssistantClient, invalidAnswer } from './assistant-client.ts';

export interface EmbedderOptions extends AssistantOptions {
  /** Texts a call, ≥ 1. */
  batch: number;
}

const answerSchema = z.object({
  data: z.array(z.object({ index: z.number().int().min(0), embedding: z.array(z.number()).min(1) })),
});

/**
 * Rejects with an AssistantFailure; an answer without one finite vector a text, all of one length, is one. A number
 * too large for 32 bits is not finite.
 */
export function createEmbedder(options: EmbedderOptions): Embedder {
  const { name, call } = createAssistantClient(options);
  const embedBatch = (input: readonly string[]): Promise<Float32Array[]> =>
    call(async (client, signal) => {
      const answer: unknown = await client.embeddings.create(
        { model: options.model, input: [...input], encoding_format: 'float' },
        { signal },
      );
      return readVectors(answer, input.length);
    });
  return {
    name,
    async embed(texts) {
      const starts = Array.from(
        { length: Math.ceil(texts.length / options.batch) },
        (_, i) => i * options.batch,
      );
      const batches = await Promise.all(
        starts.map((start) => embedBatch(texts.slice(start, start + options.batch))),
      );
      const vectors = batches.flat();
      if (new Set(vectors.map(({ length }) => length)).size > 1)
        throw invalidAnswer(`${name}: the vectors differ in length`);
      return vectors;
    },
  };
}

function readVectors(answer: unknown, count: number): Float32Array[] {
  const read = answerSchema.safeParse(answer);
  if (!read.success) throw invalidAnswer('the answer has no vectors of numbers');
  const vectors = new Array<Float32Array | undefined>(count).fill(undefined);
  for (const { index, embedding } of read.data.data) {
    if (index >= count || vectors[index]) throw invalidAnswer(`vector ${index} of ${count} is one too many`);
    const vector = Float32Array.from(embedding);
    if (!vector.every(Number.isFinite)) throw invalidAnswer(`vector ${index} is not finite`);
    vectors[index] = vector;
  }
  const whole = vectors.filter((vector) => vector !== undefined);
  if (whole.length < count) throw invalidAnswer(`${whole.length} vectors for ${count} texts`);
  return whole;
}
