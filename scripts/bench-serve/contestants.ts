/** Who samples: a server by the OpenAI protocol, or transformers' `generate` in a Python of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { UserError } from '../../src/base/errors.ts';
import { createHttpFetch } from '../../src/rollout/http-fetch.ts';

export const CONCURRENT = 64;
export const SAMPLES = 8;

/** All samples of the work, once. */
export interface Drawn {
  seconds: number;
  /** Of all threads of the process that draws; for our own server the client's too. Null: not known. */
  cpuSeconds: number | null;
  tokens: number;
}

type Body = OpenAI.Completions.CompletionCreateParamsNonStreaming & {
  ignore_eos: boolean;
  return_token_ids: boolean;
  top_k: number;
  cache_salt: string;
};
type Choice = OpenAI.CompletionChoice & { token_ids?: number[] };

/**
 * Draws every prompt 8 times, one request a sample as rollouts ask, 64 requests at a time. Every answer is
 * checked: so many token ids, and a finite log-probability for each. `inProcess`: the server is our own, in
 * this process.
 */
export function clientOf(
  baseURL: string,
  model: string,
  { prompts, newTokens, inProcess }: { prompts: number[][]; newTokens: number; inProcess: boolean },
) {
  const client = new OpenAI({ baseURL, apiKey: 'EMPTY', fetch: createHttpFetch(CONCURRENT), maxRetries: 0 });
  let seed = 0;
  let rounds = 0;
  const one = async (prompt: number[]): Promise<void> => {
    const body: Body = {
      model,
      prompt,
      max_tokens: newTokens,
      n: 1,
      // vLLM's CPU build fails on requests with a seed: "CPU Generator does not use offset".
      ...(inProcess && { seed: seed++ }),
      temperature: 1,
      top_p: 1,
      top_k: 0,
      ignore_eos: true,
      logprobs: 0,
      return_token_ids: true,
      stream: false,
      // As each policy version has its own: a prompt is prefilled anew in every round.
      cache_salt: `round ${rounds}`,
    };
    const { choices } = await client.completions.create(body);
    const choice = choices[0] as Choice;
    const logprobs = choice.logprobs?.token_logprobs ?? [];
    if (choice.token_ids?.length !== newTokens || logprobs.length !== newTokens)
      throw new Error(`${choice.token_ids?.length} tokens and ${logprobs.length} log-probabilities came`);
    if (!logprobs.every((value) => Number.isFinite(value)))
      throw new Error('a log-probability is not finite');
  };
  return async (): Promise<Drawn> => {
    const work = prompts.flatMap((prompt) => Array<number[]>(SAMPLES).fill(prompt));
    const start = performance.now();
    const cpu = process.cpuUsage();
    let next = 0;
    rounds++;
    const worker = async (): Promise<void> => {
      while (next < work.length) await one(work[next++]!);
    };
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
    const seconds = (performance.now() - start) / 1000;
    const { user, system } = process.cpuUsage(cpu);
    return { seconds, cpuSeconds: inProcess ? (user + system) / 1e6 : null, tokens: work.length * newTokens };
  };
}

export interface Generate {
  versions: Record<string, string>;
  draw(batch: number): Promise<Drawn>;
  close(): void;
}

/** Starts `generate` over the same work. */
export async function startGenerate(
  python: string,
  work: { model: string; threads: number; newTokens: number; prompts: number[][] },
): Promise<Generate> {
  const script = fileURLToPath(new URL('generate.py', import.meta.url));
  const child = spawn(python, [script], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, OMP_NUM_THREADS: String(work.threads), HF_HUB_OFFLINE: '1' },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const read = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done) throw new UserError('generate.py ended: its message stands above', python);
    return JSON.parse(value);
  };
  const send = (message: object): boolean => child.stdin.write(`${JSON.stringify(message)}\n`);
  send({ ...work, prompts: work.prompts.flatMap((prompt) => Array<number[]>(SAMPLES).fill(prompt)) });
  return {
    versions: (await read()) as Record<string, string>,
    async draw(batch) {
      send({ batch });
      return (await read()) as Drawn;
    },
    close: () => child.stdin.end(),
  };
}

export interface Vllm {
  url: string;
  version: string;
  close(): void;
}

const VLLM_START_MS = 300_000;

/** Starts vLLM's own server from the Python `python`, float32 on the CPU, and waits until it is healthy. */
export async function startVllm(python: string, model: string, threads: number, port: number): Promise<Vllm> {
  const args = ['--model', model, '--dtype', 'float32', '--host', '127.0.0.1', '--port', String(port)];
  const child: ChildProcess = spawn(
    python,
    ['-m', 'vllm.entrypoints.openai.api_server', ...args, '--max-model-len', '512', '--max-num-seqs', '64'],
    {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...process.env,
        OMP_NUM_THREADS: String(threads),
        VLLM_CPU_KVCACHE_SPACE: '1',
        VLLM_NO_USAGE_STATS: '1',
        VLLM_LOGGING_LEVEL: 'ERROR',
        HF_HUB_OFFLINE: '1',
      },
    },
  );
  let ended = false;
  for (const event of ['exit', 'error'])
    child.once(event, () => {
      ended = true;
    });
  const url = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + VLLM_START_MS;
  while (
    !(await fetch(`${url}/health`)
      .then(({ ok }) => ok)
      .catch(() => false))
  ) {
    if (ended)
      throw new UserError('vLLM ended at its start: its message stands above', python, 'or unset LEXPO_VLLM');
    if (performance.now() > deadline) {
      child.kill();
      throw new UserError(`vLLM did not answer within ${VLLM_START_MS / 1000} s`, python);
    }
    await sleep(500);
  }
  const { version } = (await (await fetch(`${url}/version`)).json()) as { version: string };
  return { url: `${url}/v1`, version, close: () => child.kill() };
}
