/** docs/conformance-vllm.md and the last line of `npm run conformance:vllm`. */
import { PROOF_TOLERANCE } from '../../src/rollout/proof.ts';
import type { Outcome } from '../../test/contract/contract.ts';
import type { Mismatch } from './mismatch.ts';
import { RECOMPUTED, type TrainFigures } from './train.ts';

export interface Server {
  dtype: string;
  logprobs: 'raw' | 'processed';
}

export interface Results {
  versions: Record<string, string>;
  arguments: string[];
  contract: Outcome[];
  mismatch: { server: Server; found: Mismatch[] }[];
  /** The check of the contract that tells raw from processed, by the server that it ran on. */
  modes: { server: Server; outcome: Outcome }[];
  training: TrainFigures;
}

const line = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
const table = (head: readonly string[], rows: readonly string[][]): string =>
  [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
const nats = (value: number): string => (value === 0 ? '0' : value.toExponential(1));
const share = (value: number | null): string => (value === null ? '–' : value.toFixed(3));

/** Nats within which float32 on both sides is one policy. */
const AGREE = PROOF_TOLERANCE;

/** Every claim that must hold, false ones with what was seen. */
export function failures({ contract, modes, mismatch, training }: Results): string[] {
  const breaches = [...contract, ...modes.map(({ outcome }) => outcome)].filter(
    ({ kind }) => kind === 'breach',
  );
  const apart = mismatch
    .filter(({ server }) => server.dtype === 'float32')
    .flatMap(({ server, found }) =>
      found
        .filter(
          ({ atOne, atTemperature }) => !((server.logprobs === 'raw' ? atOne : atTemperature).max <= AGREE),
        )
        .map(
          ({ model, temperature }) =>
            `${server.logprobs}, ${model}, temperature ${temperature}: sampler and learner differ`,
        ),
    );
  return [...breaches.map(({ name, detail }) => `${name}: ${detail}`), ...apart, ...training.problems];
}

export function lastLine(results: Results): string {
  const { contract, mismatch, training, versions } = results;
  const count = (kind: Outcome['kind']): number => contract.filter((one) => one.kind === kind).length;
  const figures = mismatch.map(({ server, found }) => ({
    ...server,
    ...Object.fromEntries(
      found.map(({ model, temperature, atOne, atTemperature }) => {
        const own = server.logprobs === 'raw' ? atOne : atTemperature;
        return [`${model}@${temperature}`, { mean: own.mean, max: own.max }];
      }),
    ),
  }));
  return JSON.stringify({
    contract: {
      checks: contract.length,
      pass: count('pass'),
      known: count('known'),
      breach: count('breach'),
    },
    mismatch: figures,
    training: {
      published: training.versions.length - 1,
      proved: training.versions.filter(({ toLearner }) => toLearner.max <= AGREE).length - 1,
      wrongPolicy: training.problems.length,
      mismatchMax: Math.max(...training.steps.map(({ mismatchMax }) => mismatchMax)),
      failedRollouts: training.failed,
      recallBefore: training.recallBefore,
      recallAfter: training.recallAfter,
    },
    failures: failures(results).length,
    versions,
  });
}

export function report(results: Results): string {
  const { contract, mismatch, modes, training, versions } = results;
  const wrong = failures(results);
  const passed = contract.filter(({ kind }) => kind === 'pass').length;
  const known = contract.filter((one) => one.kind === 'known');
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return `# Conformance with vLLM

lexpo against a real vLLM server on the demo's model, whose adapters are loaded while it runs. Written by
\`npm run conformance:vllm\` (scripts/conformance-vllm.ts). On first use it installs vLLM's CPU build into
\`.venv-vllm\`; \`LEXPO_VLLM\` names a Python that has it already.

**${passed} of ${contract.length} checks of the contract pass, ${known.length} ${known.length === 1 ? 'is a known fault' : 'are known faults'} of the build; ${training.versions.length - 1} versions published and proved in ${training.steps.length} steps; ${wrong.length === 0 ? 'nothing failed' : `${wrong.length} FAILED`}.**
${named.join(', ')}; CPU.

The server: \`VLLM_ALLOW_RUNTIME_LORA_UPDATING=True\`, \`${results.arguments.join(' ')}\`.
${wrong.length === 0 ? '' : `\n## Failed\n\n${wrong.map((one) => `- ${one}`).join('\n')}\n`}
## Sampler and learner

|Δ log-probability| in nats between vLLM, on tokens that it sampled, and the embedded learner: at temperature 1, and
at the sampling temperature T. What training may be given is small in the second column: \`raw\` only at T = 1,
\`processed\` at any. The rows of bfloat16 show what half precision costs; the learner stays float32.

${table(
  ['server', 'model', 'T', 'tokens', 'at 1: mean', 'max', 'at T: mean', 'max'],
  mismatch.flatMap(({ server, found }) =>
    found.map(({ model, temperature, atOne, atTemperature }) => [
      `${server.dtype}, ${server.logprobs}`,
      model,
      String(temperature),
      String(atOne.tokens),
      nats(atOne.mean),
      nats(atOne.max),
      nats(atTemperature.mean),
      nats(atTemperature.max),
    ]),
  ),
)}

## Ten GRPO steps

\`lexpo train configs/quickstart.yaml\` with \`endpoint.kind: vllm\`, temperature 1 and 8 questions a step, ${training.steps[0]?.trajectories ?? 0}
trajectories.
Mismatch is what the run itself measured. *Own version* and *next version* are computed afterwards: the sampled log-probabilities of ${RECOMPUTED}
trajectories a step against a learner that read the adapter's file, of the version that they name and of the one
after it. Held-out recall at 10: ${share(training.recallBefore)} before, ${share(training.recallAfter)} after; ${training.failed} failed rollouts. Ten steps
are there to try the publishing, not to show a gain.

${table(
  [
    'step',
    'sampled by',
    'reward',
    'recall',
    'mismatch mean',
    'max',
    'masked',
    'own version: max',
    'next version: max',
  ],
  training.steps.map((s) => [
    String(s.step),
    s.adapters.join(', '),
    s.reward.toFixed(3),
    share(s.recall),
    nats(s.mismatchMean),
    nats(s.mismatchMax),
    share(s.masked),
    nats(s.own.max),
    nats(s.next.max),
  ]),
)}

Each version loaded again from its folder under another name, on a fixed text, max |Δ| in nats:

${table(
  ['version', 'to the learner', 'to the base model'],
  training.versions.map(({ name, toLearner, toBase }) => [name, nats(toLearner.max), nats(toBase.max)]),
)}

## The contract

The checks of test/contract/, the same that the embedded server and the hostile endpoint of the tests pass. The
embedded server is the stricter one where vLLM is lenient: a prompt without room for its \`max_tokens\`, a field that it
does not know, \`load_inplace\` and a name that comes back with other weights are 400s there.

${table(
  ['check', 'result', 'seen'],
  [
    ...contract.map((one) => [
      one.name,
      one.kind === 'pass' ? 'ok' : one.kind === 'known' ? 'known fault' : 'FAIL',
      one.detail,
    ]),
    ...modes.map(({ server, outcome }) => [
      `${outcome.name} (${server.logprobs})`,
      outcome.kind === 'pass' ? 'ok' : 'FAIL',
      outcome.detail,
    ]),
  ],
)}

${known.map((one) => (one.kind === 'known' ? `Known fault, *${one.name}*: ${one.reason}` : '')).join('\n\n')}

${FACTS}`;
}

/** Learnt of the real server, where what is written of it elsewhere, or what one would expect, is otherwise. */
const FACTS = `## What the real server does otherwise than one would think

Of vLLM 0.32.0; the client and the publisher count on none of the alternatives.

- A load that fails in the worker (rank above the ceiling, torn files) is a **500** InternalServerError, "Call to
  add_lora method failed: …", not a 400. The server goes on, and nothing is listed.
- "No adapter found" does not name the folder: the message has \`<path>\` in its place.
- A missing field is a 400 of type "Bad Request" by the validator; only empty strings are "InvalidUserInput".
- \`max_tokens\` that no longer fit behind the prompt are **cut without a word**: 200, finish_reason length, fewer
  tokens than asked for. Only \`max_tokens\` above the whole length is a 400, of param max_tokens.
- A temperature above 2, \`n\` above 1 at temperature 0, and \`max_tokens\` 0 are 400s.
- \`top_logprobs\` under \`logprobs: 0\` holds the sampled token itself, not null.
- The message for an unknown model goes on with "Valid aliases: …".

Of its CPU build alone, beside the known fault above:

- A request with a **seed** kills the engine ("CPU Generator does not use offset") when its prompt is prefilled in
  parts: start it with \`--no-enable-chunked-prefill\`.
- \`prompt_logprobs\` kills the engine while LoRA wraps the output layer (einsum over unequal row counts): start it
  with \`--lora-target-modules\` and the decoder's modules.
`;
