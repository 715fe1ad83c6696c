/** Adapters over real HTTP and a real worker thread. */
import { rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { referenceLogprobs, writeFakeAdapter } from '../../test/serve/fake-engine.ts';
import {
  type Bench,
  complete,
  createBench,
  type Json,
  load,
  type PlainAnswer,
  post,
  unload,
  until,
} from '../../test/serve/harness.ts';
import type { PolicyServer } from './server.ts';

let bench: Bench;
let server: PolicyServer;
beforeAll(async () => {
  bench = createBench();
  server = await bench.start();
  const { adapterRoot, folder } = bench;
  writeFakeAdapter(join(adapterRoot, 'wide'), 0.9, 999);
  writeFakeAdapter(join(folder, 'elsewhere'), 0.9);
  symlinkSync(join(folder, 'elsewhere'), join(adapterRoot, 'link'));
  const broken = writeFakeAdapter(join(adapterRoot, 'broken'), 0);
  writeFileSync(join(broken, 'adapter_config.json'), '{"r": 4, "modules_to_save": ["lm_head"]}');
  const linked = writeFakeAdapter(join(adapterRoot, 'linked-file'), 0.1);
  symlinkSync(join(folder, 'elsewhere', 'adapter_config.json'), join(linked, 'adapter_model.safetensors'));
  writeFakeAdapter(join(adapterRoot, 'empty', 'inner'), 0);
});
afterAll(() => bench.close());

describe('adapters', () => {
  it('load, are listed with their folder, answer otherwise than the base, and unload', async () => {
    const loaded = await load(server, 'run-v1', join(bench.adapterRoot, 'run-v1'));
    expect([loaded.status, loaded.text]).toEqual([200, "Success: LoRA adapter 'run-v1' added successfully."]);
    await load(server, 'run-v2', join(bench.adapterRoot, 'run-v2'));
    const models = (await (await fetch(`${server.url}/v1/models`)).json()) as Json;
    expect(models.data).toMatchObject([
      { id: 'base', parent: null, max_model_len: 4096 },
      { id: 'run-v1', root: join(bench.adapterRoot, 'run-v1'), parent: 'base' },
      { id: 'run-v2', root: join(bench.adapterRoot, 'run-v2'), parent: 'base' },
    ]);
    const answers: Json[] = [];
    for (const model of ['base', 'run-v1', 'run-v2']) answers.push((await complete(server, { model })).json);
    expect(answers.map(({ model }) => model)).toEqual(['base', 'run-v1', 'run-v2']);
    [0, 0.5, 0.9].forEach((bias, i) => {
      const { token_ids: ids, logprobs } = answers[i].choices[0];
      const expected = referenceLogprobs([5, 6, 7], Math.fround(bias), 1)[ids[0]];
      expect(logprobs.token_logprobs[0]).toBe(expected);
    });
    const unloaded = await unload(server, 'run-v1');
    expect([unloaded.status, unloaded.text]).toEqual([
      200,
      "Success: LoRA adapter 'run-v1' removed successfully.",
    ]);
    expect((await complete(server, { model: 'run-v1' })).status).toBe(404);
    await unload(server, 'run-v2');
    await until(async () => (await server.stats()).adapters === 0);
  });

  it.each<[string, () => Promise<PlainAnswer>, number, string, RegExp]>([
    [
      'no path',
      () => post(server, '/v1/load_lora_adapter', { lora_name: 'x' }),
      400,
      'InvalidUserInput',
      /must be provided/,
    ],
    [
      'no folder',
      () => load(server, 'absent', join(bench.adapterRoot, 'absent')),
      404,
      'NotFoundError',
      /No adapter found/,
    ],
    [
      'no config',
      () => load(server, 'empty', join(bench.adapterRoot, 'empty')),
      404,
      'NotFoundError',
      /No adapter found/,
    ],
    [
      'a rank above the ceiling',
      () => load(server, 'wide', join(bench.adapterRoot, 'wide')),
      400,
      'BadRequestError',
      /rank 999/,
    ],
    [
      'modules_to_save',
      () => load(server, 'broken', join(bench.adapterRoot, 'broken')),
      400,
      'BadRequestError',
      /modules_to_save/,
    ],
    [
      "the base model's name",
      () => load(server, 'base', join(bench.adapterRoot, 'base')),
      400,
      'BadRequestError',
      /base model/,
    ],
    ['a relative path', () => load(server, 'x', 'adapters/run-v1'), 400, 'BadRequestError', /absolute/],
    [
      'a path elsewhere',
      () => load(server, 'x', join(bench.adapterRoot, '../elsewhere')),
      400,
      'BadRequestError',
      /not below/,
    ],
    ['a path to nowhere elsewhere', () => load(server, 'x', '/nowhere'), 400, 'BadRequestError', /not below/],
    [
      'a link to elsewhere',
      () => load(server, 'link', join(bench.adapterRoot, 'link')),
      400,
      'BadRequestError',
      /not below/,
    ],
    [
      'a file that links elsewhere',
      () => load(server, 'linked-file', join(bench.adapterRoot, 'linked-file')),
      400,
      'BadRequestError',
      /not below/,
    ],
    ['the folder itself', () => load(server, 'x', bench.adapterRoot), 400, 'BadRequestError', /not below/],
    [
      'load_inplace',
      () => post(server, '/v1/load_lora_adapter', { lora_name: 'x', lora_path: '/x', load_inplace: true }),
      400,
      'BadRequestError',
      /load_inplace/,
    ],
    ['an unknown name to unload', () => unload(server, 'x'), 404, 'NotFoundError', /'x' cannot be found/],
    [
      'no name to unload',
      () => post(server, '/v1/unload_lora_adapter', {}),
      400,
      'InvalidUserInput',
      /must be provided/,
    ],
  ])('are refused: %s', async (_, act, status, type, message) => {
    const answer = await act();
    expect([answer.status, answer.json?.error.type, answer.json?.error.code]).toEqual([status, type, status]);
    expect(answer.json.error.message).toMatch(message);
  });

  it('keep their names: loaded twice, another path, other weights are refused', async () => {
    const own = await bench.start();
    const path = writeFakeAdapter(join(bench.adapterRoot, 'fixed'), 0.3);
    expect((await load(own, 'fixed', path)).status).toBe(200);
    const twice = await load(own, 'fixed', path);
    expect([twice.status, twice.json.error.type]).toEqual([400, 'InvalidUserInput']);
    expect(twice.json.error.message).toMatch(/has already been loaded/);
    await unload(own, 'fixed');
    const moved = await load(own, 'fixed', join(bench.adapterRoot, 'run-v1'));
    expect([moved.status, moved.json.error.message]).toEqual([400, expect.stringContaining('never reused')]);
    writeFakeAdapter(path, 0.4);
    expect((await load(own, 'fixed', path)).json.error.message).toMatch(/have changed/);
    writeFakeAdapter(path, 0.3);
    expect((await load(own, 'fixed', path)).status).toBe(200);
  });

  it('are at most so many at once, and never more than that in memory over 100 loads', async () => {
    const own = await bench.start({ maxAdapters: 2 });
    await load(own, 'run-v1', join(bench.adapterRoot, 'run-v1'));
    await load(own, 'run-v2', join(bench.adapterRoot, 'run-v2'));
    const third = await load(own, 'fixed', writeFakeAdapter(join(bench.adapterRoot, 'fixed'), 0.3));
    expect([third.status, third.json.error.message]).toEqual([400, expect.stringContaining('unload one')]);
    await unload(own, 'run-v1');
    for (let i = 0; i < 100; i++) {
      const name = `many-v${i}`;
      await load(own, name, writeFakeAdapter(join(bench.adapterRoot, name), i / 100));
      await complete(own, { model: name, max_tokens: 1 });
      await unload(own, name);
      rmSync(join(bench.adapterRoot, name), { recursive: true });
    }
    await until(async () => (await own.stats()).adapters === 1);
  });

  it('unloaded in mid request end it first, with their own weights', async () => {
    const own = await bench.start();
    await load(own, 'run-v1', join(bench.adapterRoot, 'run-v1'));
    const alone = (await complete(own, { model: 'run-v1', max_tokens: 400, ignore_eos: true })).json;
    const body = { model: 'run-v1', max_tokens: 400, ignore_eos: true };
    const inFlight = complete(own, body);
    await until(async () => (await own.stats()).running > 0);
    await unload(own, 'run-v1');
    expect((await complete(own, body)).status).toBe(404);
    expect((await inFlight).json.choices).toEqual(alone.choices);
    await until(async () => (await own.stats()).adapters === 0);
  });
});
