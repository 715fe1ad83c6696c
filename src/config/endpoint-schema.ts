/** The section `endpoint`: who samples. What its `kind` is decides its other keys. */
import { z } from 'zod';
import { count, filled, positive, threads } from './fields.ts';

/** Milliseconds; a timer holds no more than 2³¹. */
const deadline = count.max(86_400_000);

const url = z
  .url({ protocol: /^https?$/, error: 'an address such as http://10.0.0.1:8000' })
  .regex(/^[^@?#]*$/, 'an address alone: a key goes into the environment variable that apiKeyEnv names');

const replica = z.strictObject({
  /** With or without the trailing `/v1`. */
  url,
  /** The folder of adapters (of the run, or of the champions) as this server sees it; left out: the path that it has here. */
  adapterRoot: z
    .string()
    .regex(/^\//, 'an absolute path: anything else the server takes for the name of a model to download')
    .optional(),
});

/** vLLM servers that adapters are loaded on. */
export const servers = {
  replicas: z.array(replica).min(1).max(1024),
  /** The NAME of the environment variable that holds the key. The key itself stands in no file. */
  apiKeyEnv: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable, not the key itself')
    .optional(),
  /** Largest |Δ log-probability| (nats) between server and learner in a proof; left out: by the learner's dtype. */
  proofTolerance: positive.max(10).optional(),
  /** Of one load of an adapter. */
  loadDeadlineMs: deadline.default(120_000),
};

/** Our own server within the run, or one vLLM server or more that serve the same base model. */
export const endpoint = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('embedded').default('embedded'), threads }),
  z.strictObject({
    kind: z.literal('vllm'),
    ...servers,
    /** The id under which the servers list the base model; left out: the only one without a parent. */
    model: filled.optional(),
    /** The servers' `--logprobs-mode`, with `_logprobs` left out. */
    logprobs: z.enum(['raw', 'processed']).default('raw'),
    /**
     * When one replica cannot serve a new version: `keep-old` leaves every replica on the old version and the
     * step fails; `drop-replica` goes on without it for as long as one is left. A replica that does not answer
     * at all leaves the rotation under both.
     */
    onPartialFailure: z.enum(['keep-old', 'drop-replica']).default('keep-old'),
    /** Between two health checks of a replica. */
    healthEveryMs: deadline.default(5_000),
  }),
]);
