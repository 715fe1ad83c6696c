/** Calls over several servers of which some are dead, started again, or odd. */
import { describe, expect, it } from 'vitest';
import type { CompletionCall } from './endpoint.ts';
import { adapterOf, callOf, fail, fakeReplicas, settle } from './test-support-replicas.ts';

const outOf = (replicas: ReturnType<typeof fakeReplicas>['replicas']) =>
  replicas.state().flatMap(({ name, out }) => (out === null ? [] : [name]));
const prompts = Array.from({ length: 30 }, (_, i) => [i, i + 1, i + 2]);

describe('complete', () => {
  it('uses every replica, and keeps a prompt on one', async () => {
    const { servers, replicas } = fakeReplicas(3);
    await replicas.install(adapterOf(1));
    for (const prompt of prompts) await replicas.complete(callOf('run-v1', prompt));
    for (const { log } of servers)
      expect(log.filter((line) => line.startsWith('complete')).length).toBeGreaterThan(2);
    const before = servers.map(({ log }) => log.length);
    for (let i = 0; i < 5; i++) await replicas.complete(callOf('run-v1', prompts[0]!, i));
    expect(servers.filter(({ log }, i) => log.length > before[i]!)).toHaveLength(1);
  });

  it('tells the prompt cache which weights they are: another salt for other weights of the same name', async () => {
    const salts: unknown[] = [];
    for (const shift of [0, 0, 1]) {
      const { servers, replicas } = fakeReplicas(1, { tolerance: 5 });
      const adapter = adapterOf(1);
      adapter.proof!.policy[0]! += shift;
      servers[0]!.answersAs = () => adapter.proof!.policy;
      await replicas.install(adapter);
      const { endpoint } = servers[0]!;
      const { complete } = endpoint;
      endpoint.complete = (call: CompletionCall) => {
        salts.push(call.cacheSalt);
        return complete(call);
      };
      await replicas.complete({ ...callOf('run-v1'), cacheSalt: 'v1' });
    }
    expect(salts[0]).toMatch(/^v1-[0-9a-f]{16}$/);
    expect(salts[1]).toBe(salts[0]);
    expect(salts[2]).not.toBe(salts[0]);
  });

  it('a dead replica leaves, its calls are made again elsewhere with the same seed, and it comes back proved', async () => {
    const { servers, replicas, timer, lines } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    servers[0]!.alive = false;
    const outputs = await Promise.all(
      prompts.map((prompt, seed) => replicas.complete(callOf('run-v1', prompt, seed))),
    );
    expect(outputs.map(({ outputIds }) => outputIds[0])).toEqual(prompts.map((_, seed) => seed));
    expect(outOf(replicas)).toEqual(['a']);
    await timer.advance(5_000);
    expect(outOf(replicas)).toEqual(['a']);
    servers[0]!.restart();
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual([]);
    expect([...servers[0]!.loaded.keys()]).toEqual(['run-v1']);
    expect(lines).toEqual(['a leaves the rotation: ECONNREFUSED', 'a is back']);
  });

  it('one that was started again between two calls is found by its 404, and gets its adapters before it is asked again', async () => {
    const { servers, replicas } = fakeReplicas(1);
    await replicas.install(adapterOf(1));
    servers[0]!.restart();
    expect((await replicas.complete(callOf('run-v1'))).model).toBe('run-v1');
    expect(servers[0]!.log).toEqual(['load run-v1', 'complete run-v1', 'load run-v1', 'complete run-v1']);
  });

  it('one that was started again and answers with the base model does not come back', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    const { answersAs } = servers[0]!;
    servers[0]!.restart();
    servers[0]!.answersAs = () => answersAs('base');
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual(['a']);
    for (const prompt of prompts) await replicas.complete(callOf('run-v1', prompt));
    expect(servers[0]!.log.filter((line) => line === 'complete run-v1')).toEqual([]);
    expect(replicas.state()[0]!.out).toMatch(/base model/);
  });

  it('a model that no version in use is named by: the 404 is the answer', async () => {
    const { replicas } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    await expect(replicas.complete(callOf('run-v0'))).rejects.toMatchObject({ reason: 'unknown-model' });
    expect(outOf(replicas)).toEqual([]);
  });

  it('when none is left: waits for one to come back', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    for (const server of servers) server.alive = false;
    const call = replicas.complete(callOf('run-v1'));
    await timer.advance(3_500);
    servers[1]!.restart();
    await timer.advance(1_500);
    expect((await call).model).toBe('run-v1');
  });

  it('when none comes back: an error at the deadline that says which failed and why', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    servers[0]!.alive = false;
    servers[1]!.faults.health = fail('http', 'engine dead', 503);
    servers[1]!.faults.complete = fail('http', 'engine dead', 503);
    const failed = replicas.complete(callOf('run-v1')).catch((error: unknown) => error);
    await timer.advance(9_000);
    let settled = false;
    void failed.then(() => (settled = true));
    await settle();
    expect(settled).toBe(false);
    await timer.advance(1_500);
    expect(await failed).toMatchObject({
      reason: 'connection',
      message: 'no replica is left (a: ECONNREFUSED; b: engine dead)',
    });
  });

  it('calls that a living replica loses are made again a bounded number of times, and it stays', async () => {
    const { servers, replicas } = fakeReplicas(1);
    servers[0]!.faults.complete = fail('connection', 'reset in the middle');
    await expect(replicas.complete(callOf('base'))).rejects.toMatchObject({ message: 'reset in the middle' });
    expect(servers[0]!.log).toHaveLength(5);
    expect(outOf(replicas)).toEqual([]);
  });

  it.each([
    ['invalid-answer', undefined],
    ['too-long', 400],
    ['deadline', undefined],
    ['http', 400],
    ['http', 500],
  ] as const)('%s %s of a living replica fails the call at once, and it stays', async (reason, status) => {
    const { servers, replicas } = fakeReplicas(2);
    for (const server of servers) server.faults.complete = fail(reason, 'x', status);
    await expect(replicas.complete(callOf('base'))).rejects.toMatchObject({ reason });
    expect([...servers[0]!.log, ...servers[1]!.log]).toHaveLength(1);
    expect(outOf(replicas)).toEqual([]);
  });
});

describe('health checks', () => {
  it('find a dead replica that nobody asks', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    servers[1]!.alive = false;
    await timer.advance(1_000);
    expect(outOf(replicas)).toEqual(['b']);
  });

  it('find one that was started again, and one that has an adapter from another folder', async () => {
    const { servers, replicas, timer, lines } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    servers[0]!.restart();
    servers[1]!.loaded.set('run-v1', '/old/run-v1');
    await timer.advance(1_000);
    expect(lines).toContain('a is back');
    expect(outOf(replicas)).toEqual(['b']);
  });

  it('let a busy one miss an answer once, not twice in a row', async () => {
    const { servers, replicas, timer } = fakeReplicas(1);
    let late = 1;
    servers[0]!.faults.health = () => {
      if (late-- > 0) fail('deadline')();
    };
    await timer.advance(2_500);
    expect(outOf(replicas)).toEqual([]);
    late = 2;
    await timer.advance(1_000);
    expect(outOf(replicas)).toEqual([]);
    await timer.advance(1_000);
    expect(outOf(replicas)).toEqual(['a']);
  });

  it('end with close, which wakes who waits', async () => {
    const { servers, replicas, timer, lines } = fakeReplicas(1);
    servers[0]!.alive = false;
    const call = replicas.complete(callOf('base')).catch((error: unknown) => error);
    await timer.advance(100);
    await replicas.close();
    expect(await call).toMatchObject({ reason: 'connection' });
    const told = lines.length;
    servers[0]!.alive = true;
    await timer.advance(5_000);
    expect(lines).toHaveLength(told);
  });
});
