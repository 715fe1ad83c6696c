/** The section `assistants`: models that help and are never trained, at any OpenAI-compatible endpoint. */
import { z } from 'zod';
import { count, filled, share } from './fields.ts';

/** Who is asked, and how patiently. */
const served = {
  /** With or without the trailing `/v1`. */
  url: z.url({ protocol: /^https?$/, error: 'an address such as http://10.0.0.1:8000' }),
  /** The model's id at that endpoint. */
  model: filled,
  /** The NAME of the environment variable that holds the key. */
  apiKeyEnv: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable, not the key itself')
    .optional(),
  deadlineMs: count.max(86_400_000).default(120_000),
  /** Attempts after the first, of what may heal. */
  retries: z.number().int().min(0).max(20).default(3),
  /** Calls under way at once. */
  concurrency: count.max(1024).default(8),
};

/** Embeddings beside BM25 in the first stage: `env/retrieval/hybrid.ts`. */
export const embeddings = z.strictObject({
  ...served,
  /** Share of the embeddings in the score; Legal-R1's code has 10 of 25. */
  weight: share.default(0.4),
  /** Texts a call. */
  batch: count.max(4096).default(32),
});

const assistant = z.strictObject({
  ...served,
  /** Of one answer. */
  maxTokens: count.default(1024),
  temperature: z.number().min(0).max(2).default(0),
});

/** Each left out: its deterministic stand-in works, and the run says so. */
export const assistants = z.strictObject({
  /** Plays the demonstrations of `lexpo synthesize`. */
  teacher: assistant.optional(),
  /** Writes the answer from what was found. */
  judge: assistant.optional(),
  /** Says how good an answer or its evidence is, where no label can. */
  critic: assistant.optional(),
  /** Condenses precedents. */
  condenser: assistant.optional(),
  /** Reranks statutes by intent. */
  reranker: assistant.optional(),
  /** Folder of their answers and of vectors, kept by content; left out: `.assistants` beside the runs. */
  cache: filled.optional(),
});
