/** What the tests of the server share: folders, a server over the fake model, and a plain HTTP client. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PolicyServer, type ServerOptions, startServer } from '../../src/serve/server.ts';
import { writeFakeAdapter, writeFakeModel } from './fake-engine.ts';

const TOKENIZER = fileURLToPath(new URL('../vectors/char-tokenizer', import.meta.url));

// biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as a client would.
export type Json = any;

export interface PlainAnswer {
  status: number;
  text: string;
  json: Json;
}

export interface Bench {
  folder: string;
  modelFolder: string;
  /** Holds the adapters run-v1 (bias 0.5) and run-v2 (bias 0.9). */
  adapterRoot: string;
  /** A server of its own; the base model is called `base`. */
  start(options?: Partial<ServerOptions>): Promise<PolicyServer>;
  /** Closes every server and removes the folder. */
  close(): Promise<void>;
}

export function createBench(): Bench {
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-serve-'));
  const modelFolder = writeFakeModel(join(folder, 'model'), TOKENIZER);
  const adapterRoot = join(folder, 'adapters');
  writeFakeAdapter(join(adapterRoot, 'run-v1'), 0.5);
  writeFakeAdapter(join(adapterRoot, 'run-v2'), 0.9);
  const opened: PolicyServer[] = [];
  return {
    folder,
    modelFolder,
    adapterRoot,
    async start(options = {}) {
      const engineModule = new URL('./fake-engine.ts', import.meta.url);
      const server = await startServer({
        modelFolder,
        adapterRoot,
        servedModelName: 'base',
        engineModule,
        ...options,
      });
      opened.push(server);
      return server;
    },
    async close() {
      await Promise.all(opened.map((server) => server.close()));
      rmSync(folder, { recursive: true });
    },
  };
}

export async function post(
  server: PolicyServer,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<PlainAnswer> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') ?? false;
  return { status: response.status, text, json: isJson ? JSON.parse(text) : null };
}

/** A completion request that is fine as it is. */
export const ask = (more: object = {}): object => ({
  model: 'base',
  prompt: [5, 6, 7],
  max_tokens: 8,
  temperature: 1,
  seed: 3,
  logprobs: 0,
  return_token_ids: true,
  ...more,
});

export const complete = (server: PolicyServer, more: object = {}): Promise<PlainAnswer> =>
  post(server, '/v1/completions', ask(more));

export const load = (server: PolicyServer, name: string, path: string): Promise<PlainAnswer> =>
  post(server, '/v1/load_lora_adapter', { lora_name: name, lora_path: path });

export const unload = (server: PolicyServer, name: string): Promise<PlainAnswer> =>
  post(server, '/v1/unload_lora_adapter', { lora_name: name });

/** Waits until the condition holds; throws after some seconds. */
export async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 4_000; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error('the condition did not come true');
}
