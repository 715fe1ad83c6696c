import { describe, expect, it } from 'vitest';
import type { CompletionCall, Endpoint } from '../endpoint.ts';
import { adapterOf, fail, fakeReplicas, settle } from '../test-support-replicas.ts';
import { spreadCalls } from './spread-calls.ts';

const callOf = (id: number): CompletionCall => ({
  model: 'm',
  promptIds: [id],
  maxTokens: 1,
  temperature: 1,
  seed: 1,
  stopTokenIds: [],
});

const stays = (...urls: string[]) => Object.fromEntries(urls.map((url) => [url, 'stay']));
const answerTo = (call: CompletionCall): Awaited<ReturnType<Endpoint['complete']>> => ({
  ...call,
  outputIds: [1],
  logprobs: [0],
  finishReason: 'stop',
  text: '',
});

it('asks the servers in rotation only, all of them, and each is opened once', async () => {
  let urls = ['http://a', 'http://b'];
  const opened: string[] = [];
  const asked: string[] = [];
  const servers = () => stays(...urls);
  const { complete } = spreadCalls({
    servers,
    ask: async () => servers(),
    open(url) {
      opened.push(url);
      return {
        complete: async (call) => {
          asked.push(url);
          return answerTo(call);
        },
      };
    },
  });
  for (let id = 0; id < 50; id++) await complete(callOf(id));
  expect(new Set(asked)).toEqual(new Set(urls));
  urls = ['http://b'];
  asked.length = 0;
  for (let id = 0; id < 50; id++) await complete(callOf(id));
  expect(new Set(asked)).toEqual(new Set(urls));
  expect(opened.sort()).toEqual(['http://a', 'http://b']);
});

it('leaves a server that is busy, and counts a failed call as over', async () => {
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const asked = new Map<string, number>();
  const servers = () => stays('http://a', 'http://b');
  const { complete } = spreadCalls({
    servers,
    ask: async () => servers(),
    open: (url) => ({
      complete: async () => {
        asked.set(url, (asked.get(url) ?? 0) + 1);
        await gate;
        throw new Error('broken');
      },
    }),
  });
  const calls = Array.from({ length: 40 }, () => complete(callOf(7)).catch(() => 'failed'));
  expect(Math.min(...asked.values())).toBeGreaterThan(5);
  expect(asked.size).toBe(2);
  open();
  expect(await Promise.all(calls)).toEqual(Array(40).fill('failed'));
  asked.clear();
  await complete(callOf(7)).catch(() => {});
  await complete(callOf(7)).catch(() => {});
  expect(asked.size).toBe(1);
});

it('waits for a server while none is in rotation, until its call is given up', async () => {
  let now = {};
  const servers = () => now;
  const { complete } = spreadCalls({
    servers,
    ask: async () => servers(),
    open: () => ({ complete: async (call) => answerTo(call) }),
  });
  const call = complete({ ...callOf(1), signal: new AbortController().signal });
  now = stays('http://a');
  expect(await call).toMatchObject({ outputIds: [1] });
  now = {};
  const given = complete({ ...callOf(1), signal: AbortSignal.abort() });
  await expect(given).rejects.toMatchObject({ reason: 'connection' });
});

describe('a server that is started again', () => {
  /** One replica of a trainer, and a worker that calls it by itself; both hear of each other at once. */
  async function stage() {
    const { servers, replicas, timer } = fakeReplicas(1);
    const [server] = servers;
    await replicas.install(adapterOf(1));
    const announced = () =>
      Object.fromEntries(
        replicas.state().flatMap(({ name, out, exits }) => (out === null ? [[name, `${exits}`]] : [])),
      );
    let told = announced();
    replicas.onReturn(async () => {
      told = announced();
    });
    const complete = server!.endpoint.complete;
    /** Holds the worker's call between the request and the answer. */
    const during = { run: async (): Promise<void> => {} };
    const worker = spreadCalls({
      servers: () => told,
      ask: async () => told,
      open: () => ({
        async complete(call) {
          await during.run();
          return complete(call);
        },
      }),
    });
    const call = () => worker.complete({ ...callOf(1), model: 'run-v1', signal: AbortSignal.timeout(5_000) });
    return { server: server!, replicas, timer, during, call, announce: () => (told = announced()) };
  }

  it('is not believed when its adapter was loaded anew during a call, proved or not', async () => {
    for (const proved of [true, false]) {
      const { server, replicas, timer, during, call } = await stage();
      expect((await call()).model).toBe('run-v1');
      during.run = async () => {
        server.restart();
        // Loaded, and its proof still under way when the call is answered.
        if (!proved) server.faults.score = () => new Promise(() => {});
        await timer.advance(1_500);
      };
      await expect(call()).rejects.toMatchObject({ reason: 'connection' });
      expect(server.log.filter((line) => line === 'load run-v1').length).toBeGreaterThan(1);
      expect(replicas.state()[0]!.out === null).toBe(proved);
    }
  });

  it('is believed again once it is back and that is announced', async () => {
    const { server, timer, call, announce } = await stage();
    server.restart();
    await timer.advance(1_500);
    announce();
    expect((await call()).model).toBe('run-v1');
  });

  it('gets no adapter before the workers know that it is out', async () => {
    const { server, replicas, timer } = await stage();
    replicas.onReturn(fail('connection', 'Redis is away'));
    server.restart();
    await timer.advance(5_000);
    await settle();
    expect(server.log).toEqual(['load run-v1']);
    expect(replicas.state()[0]!.out).toMatch(/Redis is away/);
    replicas.onReturn(async () => {});
    await timer.advance(1_500);
    expect(server.log).toEqual(['load run-v1', 'load run-v1']);
    expect(replicas.state()[0]!.out).toBeNull();
  });
});
