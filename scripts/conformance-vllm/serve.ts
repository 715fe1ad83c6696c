/** vLLM's own server as a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../src/base/errors.ts';
import { LORA_MODULES } from '../../src/engine/peft.ts';
import { freePort } from '../../test/free-port.ts';

export interface VllmOptions {
  model: string;
  dtype: 'float32' | 'bfloat16';
  logprobs: 'raw' | 'processed';
  maxLoraRank: number;
  /** Where its output goes. */
  logFile: string;
}

export interface VllmServer {
  url: string;
  /** The process has ended. */
  ended(): boolean;
  close(): Promise<void>;
}

export const BASE_MODEL = 'base';
const START_MS = 300_000;

/**
 * What every server here is started with. Two of them are for the CPU build alone (0.32.0):
 *
 * - without chunked prefill a request with a seed is never scheduled for a part of its prompt, after which the
 *   engine would set its generator back by an offset that CPU generators do not have, and die;
 * - with LoRA confined to the decoder's modules the output layer is not wrapped, whose CPU kernel dies on the
 *   rows of prompt_logprobs.
 */
export const serverArguments = ({ model, dtype, logprobs, maxLoraRank }: Omit<VllmOptions, 'logFile'>) => [
  ...['--model', model, '--served-model-name', BASE_MODEL, '--dtype', dtype, '--host', '127.0.0.1'],
  ...['--enable-lora', '--max-lora-rank', String(maxLoraRank), '--max-loras', '2', '--max-cpu-loras', '4'],
  ...['--logprobs-mode', `${logprobs}_logprobs`, '--generation-config', 'vllm', '--max-num-seqs', '128'],
  '--no-enable-chunked-prefill',
  ...['--lora-target-modules', ...LORA_MODULES],
];

/** Starts it on a free port and waits until it is healthy. UserError, with its last words, when it is not. */
export async function startVllm(python: string, options: VllmOptions): Promise<VllmServer> {
  const port = await freePort();
  const log = openSync(options.logFile, 'w');
  const child: ChildProcess = spawn(
    python,
    ['-m', 'vllm.entrypoints.openai.api_server', '--port', String(port), ...serverArguments(options)],
    {
      stdio: ['ignore', log, log],
      // A group of its own: the engine is a process beside the server and must go with it.
      detached: true,
      env: {
        ...process.env,
        VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True',
        VLLM_CPU_KVCACHE_SPACE: '1',
        // Not bound to the first core, where every other vLLM of the machine would be too.
        VLLM_CPU_OMP_THREADS_BIND: 'nobind',
        OMP_NUM_THREADS: '1',
        VLLM_NO_USAGE_STATS: '1',
        HF_HUB_OFFLINE: '1',
      },
    },
  );
  let ended = false;
  const end = new Promise<void>((resolve) => {
    for (const event of ['exit', 'error'])
      child.once(event, () => {
        ended = true;
        resolve();
      });
  });
  const signalGroup = (name: NodeJS.Signals): void => {
    try {
      if (child.pid) process.kill(-child.pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  const killed = (): void => signalGroup('SIGKILL');
  process.once('exit', killed);
  const close = async (): Promise<void> => {
    child.kill('SIGTERM');
    await Promise.race([end, sleep(15_000, undefined, { ref: false })]);
    killed();
    process.off('exit', killed);
  };
  const url = `http://127.0.0.1:${port}`;
  const deadline = performance.now() + START_MS;
  while (!(await healthy(url))) {
    if (ended || performance.now() > deadline) {
      await close();
      const last = readFileSync(options.logFile, 'utf8').trim().split('\n').slice(-15).join('\n');
      throw new UserError(`vLLM ${ended ? 'ended at its start' : 'did not answer'}:\n${last}`, python);
    }
    await sleep(300);
  }
  return { url, ended: () => ended, close };
}

const healthy = (url: string): Promise<boolean> =>
  fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })
    .then(({ ok }) => ok)
    .catch(() => false);
