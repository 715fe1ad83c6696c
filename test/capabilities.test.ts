/** What is asked of every server before a run, against servers that lack one thing each. */
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../src/base/errors.ts';
import { temporaryFolder } from '../src/base/test-support.ts';
import { writeAdapter } from '../src/engine/peft.ts';
import { checkReplicas, type Needs } from '../src/rollout/capabilities.ts';
import { createEndpoint } from '../src/rollout/endpoint.ts';
import type { ServedAdapter } from '../src/rollout/proof.ts';
import { systemTimer } from '../src/rollout/replicas.ts';
import { tableAdapter, tableModel } from '../src/trainer/test-support.ts';
import {
  fakeModel,
  type HostileEndpoint,
  type HostileOptions,
  type Rule,
  startHostileEndpoint,
} from './hostile-endpoint/hostile-endpoint.ts';

const root = temporaryFolder();
const folder = join(root, 'run-probe');
const probe: ServedAdapter = { version: 0, name: 'run-probe', folder, proof: null };
const RANK = 6;
beforeAll(() => writeAdapter(folder, tableAdapter(tableModel(RANK), 0.5), { baseModel: 'base' }));

const started: HostileEndpoint[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.close()));
});

/** The tokenizer of the hostile endpoint: a character a token. */
const tokenizer: Needs['tokenizer'] = {
  encodeMarkup: (text) => [...text].map((letter) => Math.abs(letter.codePointAt(0)! - 0x4e00) % 32),
  controlTokens: [],
};
const needs: Needs = {
  model: undefined,
  maxCallTokens: 256,
  logprobs: 'raw',
  temperature: 1,
  tokenizer,
  probeIds: [3, 9, 27, 14, 5, 2, 8, 21],
  tolerance: 0.01,
  probe: { adapter: probe, rank: RANK },
};

async function check(
  servers: { script?: Rule[]; options?: HostileOptions }[],
  change: Partial<Needs> = {},
): Promise<Awaited<ReturnType<typeof checkReplicas>>> {
  const replicas = [];
  for (const [i, { script = [], options = {} }] of servers.entries()) {
    const server = await startHostileEndpoint(script, options);
    started.push(server);
    const endpoint = createEndpoint({ baseUrl: server.url, deadlineMs: 1_000, maxConcurrent: 4 });
    replicas.push({ name: 'ab'[i]!, endpoint, adapterRoot: null });
  }
  return checkReplicas(replicas, { ...needs, ...change }, systemTimer);
}

describe('checkReplicas', () => {
  it('finds the base model, and leaves the servers as they were', async () => {
    const { baseModel, notes } = await check([{}, {}]);
    expect(baseModel).toBe('base');
    expect(notes).toEqual(['a: version 0.32.0', 'b: version 0.32.0']);
    for (const server of started) expect(server.loaded()).toEqual([]);
  });

  it.each<[string, { script?: Rule[]; options?: HostileOptions }, Partial<Needs>, RegExp]>([
    [
      'a dead engine',
      { script: [{ route: 'health', fault: { kind: 'status', status: 503 } }] },
      {},
      /does not answer.*503/,
    ],
    [
      'a base model of another id',
      {},
      { model: 'Qwen/Qwen3-4B' },
      /does not list Qwen\/Qwen3-4B .* has base/,
    ],
    ['too short a context', { options: { maxModelLen: 128 } }, {}, /128 tokens.*--max-model-len 256/],
    [
      'another tokenizer',
      {},
      { tokenizer: { ...tokenizer, encodeMarkup: (text) => tokenizer.encodeMarkup(text.trim()) } },
      /tokenizer is not that of model\.path: " {2}two/,
    ],
    [
      'no token ids in answers',
      { script: [{ route: 'score', fault: { kind: 'lie', lie: 'no-token-ids' } }] },
      {},
      /prompt_logprobs.*return_token_ids/,
    ],
    [
      'raw log-probabilities at another temperature',
      {},
      { logprobs: 'processed', temperature: 0.7 },
      /are raw, .*--logprobs-mode processed_logprobs/,
    ],
    [
      'a rank above its ceiling',
      { options: { maxLoraRank: 4 } },
      {},
      /rank 6: start it with --max-lora-rank 8/,
    ],
    [
      'no routes for adapters',
      {
        script: [
          { route: 'load', fault: { kind: 'status', status: 404, shape: 'text', message: 'Not Found' } },
        ],
      },
      {},
      /VLLM_ALLOW_RUNTIME_LORA_UPDATING/,
    ],
    [
      'adapters that load and do nothing',
      { script: [{ route: 'load', fault: { kind: 'load-as-base' } }] },
      {},
      /answers as without it/,
    ],
    [
      'adapters that load and are not listed',
      { script: [{ route: 'load', fault: { kind: 'load-unlisted' } }] },
      {},
      /does not list it/,
    ],
  ])('refuses %s', async (_, server, change, message) => {
    const failure = await check([server], change).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UserError);
    expect(String(failure)).toMatch(message);
    expect(String(failure)).toMatch(/1 problem\n/);
  });

  it('takes processed ones where the run samples at another temperature', async () => {
    const options = { logprobs: 'processed' as const };
    await check([{ options }], { logprobs: 'processed', temperature: 0.7 });
  });

  it('at temperature 1 the mode is a note', async () => {
    const { notes } = await check([{ options: { logprobs: 'processed' } }]);
    expect(notes[1]).toMatch(/are processed, endpoint.logprobs says raw: the same at temperature 1/);
  });

  it('refuses replicas of different base models', async () => {
    const other = {
      ...fakeModel,
      logprobs: (ids: readonly number[], adapter: Parameters<typeof fakeModel.logprobs>[1], t: number) =>
        fakeModel.logprobs([...ids, 4], adapter, t),
    };
    await expect(check([{}, { options: { model: other } }])).rejects.toThrow(
      /b: serves another base model than a/,
    );
    await expect(check([{}, { options: { baseModel: 'other' } }])).rejects.toThrow(
      /b: lists its base model as other, a as base/,
    );
  });

  it('tells every problem of every server at once', async () => {
    const short = { options: { maxModelLen: 128, maxLoraRank: 1 } };
    const dead: { script: Rule[] } = { script: [{ route: 'health', fault: { kind: 'hang' } }] };
    const failure = await check([short, dead]).catch(String);
    expect(failure).toMatch(/3 problems\n {2}a: .*128 tokens.*\n {2}a: .*rank.*\n {2}b: does not answer.*\n/);
  });
});
