/** What stays on a server after something went wrong there, and what must not come of it. */
import { describe, expect, it } from 'vitest';
import type { ServedAdapter } from './proof.ts';
import { adapterOf, callOf, fail, fakeReplicas, settle } from './test-support-replicas.ts';

const outOf = (replicas: ReturnType<typeof fakeReplicas>['replicas']) =>
  replicas.state().flatMap(({ name, out }) => (out === null ? [] : [name]));

describe('an adapter that is wrong under its name', () => {
  it('is taken away, so that the next try loads it anew and the replica comes back', async () => {
    const { servers, replicas, timer } = fakeReplicas(2, { onPartialFailure: 'drop-replica' });
    const b = servers[1]!;
    const { answersAs } = b;
    b.answersAs = () => answersAs('base');
    // What a name answers with is settled when it is loaded.
    b.faults.load = () => {
      if (b.log.filter((line) => line === 'load run-v1').length > 1) b.answersAs = answersAs;
    };
    await replicas.install(adapterOf(1));
    expect(outOf(replicas)).toEqual(['b']);
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual([]);
    expect(b.log).toEqual(['load run-v1', 'unload run-v1', 'load run-v1']);
  });

  it('is taken away when it is loaded and not listed', async () => {
    const { servers, replicas, timer } = fakeReplicas(2, { onPartialFailure: 'drop-replica' });
    const b = servers[1]!;
    const { listModels } = b.endpoint;
    let hidden = true;
    b.endpoint.listModels = async () => (await listModels()).filter(({ id }) => !hidden || id !== 'run-v1');
    b.faults.load = () => {
      if (b.loaded.has('run-v1')) fail('http', "'run-v1' has already been loaded", 400)();
      hidden = b.log.filter((line) => line === 'load run-v1').length === 1;
    };
    await replicas.install(adapterOf(1));
    expect(outOf(replicas)).toEqual(['b']);
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual([]);
  });
});

describe('a load that was given up and is done all the same later', () => {
  it('is found in the list and unloaded', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    servers[1]!.faults.load = fail('deadline');
    await expect(replicas.install(adapterOf(2))).rejects.toThrow(/run-v2/);
    servers[1]!.faults = {};
    servers[1]!.loaded.set('run-v2', '/here/adapters/run-v2');
    // Another run's stays.
    servers[1]!.loaded.set('other-v2', '/there/other-v2');
    await timer.advance(1_500);
    expect([...servers[1]!.loaded.keys()]).toEqual(['run-v1', 'other-v2']);
    expect(outOf(replicas)).toEqual([]);
  });
});

describe('a version that is being loaded', () => {
  it('is not unloaded because a call of an older one ends, or a health check lists it', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    let release = (): void => {};
    for (const { faults } of servers)
      faults.complete = () => new Promise<void>((resolve) => (release = resolve));
    const call = replicas.complete(callOf('run-v1'));
    await settle();
    const busy = servers.find(({ log }) => log.includes('complete run-v1'))!;
    const other = servers.find((server) => server !== busy)!;
    await replicas.install(adapterOf(2));
    let loaded = (): void => {};
    other.faults.load = () => new Promise<void>((resolve) => (loaded = resolve));
    const installing = replicas.install(adapterOf(3));
    await settle();
    release();
    await call;
    await timer.advance(1_500);
    expect([...busy.loaded.keys()]).toEqual(['run-v2', 'run-v3']);
    loaded();
    await installing;
    expect(busy.log).not.toContain('unload run-v3');
    for (const server of servers) expect([...server.loaded.keys()]).toEqual(['run-v3']);
    expect(outOf(replicas)).toEqual([]);
  });
});

describe('a version that was not published, and is still loaded somewhere', () => {
  it('is told from a later one that lies within the tolerance of it', async () => {
    const { servers, replicas } = fakeReplicas(2, { tolerance: 0.01 });
    const [a, b] = servers;
    await replicas.install(adapterOf(1));
    b!.faults.load = fail('http', 'full', 400);
    a!.faults.unload = fail('http', 'oops', 500);
    const second = adapterOf(2);
    await expect(replicas.install(second)).rejects.toThrow(/run-v2/);
    expect([...a!.loaded.keys()]).toContain('run-v2');
    b!.faults = {};
    const third: ServedAdapter = {
      ...adapterOf(3),
      proof: { ...second.proof!, policy: second.proof!.policy.map((x) => x + 0.005) },
    };
    const { answersAs } = a!;
    a!.answersAs = (name) => (name === 'run-v3' ? answersAs('run-v2') : answersAs(name));
    b!.answersAs = (name) => (name === 'run-v3' ? third.proof!.policy : answersAs(name));
    await expect(replicas.install(third)).rejects.toThrow(
      /a: .*older version, run-v2.*\n {2}b: could serve it/s,
    );
  });

  it('does not count as one of those that the staleness bound keeps', async () => {
    const { servers, replicas } = fakeReplicas(1, { staleness: 1 });
    await replicas.install(adapterOf(1));
    servers[0]!.faults.load = fail('http', 'full', 400);
    for (const version of [2, 3]) await expect(replicas.install(adapterOf(version))).rejects.toThrow();
    servers[0]!.faults = {};
    await replicas.install(adapterOf(4));
    expect([...servers[0]!.loaded.keys()]).toEqual(['run-v1', 'run-v4']);
    await replicas.install(adapterOf(5));
    expect([...servers[0]!.loaded.keys()]).toEqual(['run-v4', 'run-v5']);
  });
});

it('a load that a full server refuses for the moment is sent again', async () => {
  const { servers, replicas, timer } = fakeReplicas(1);
  let full = 2;
  servers[0]!.faults.load = () => {
    if (full-- > 0) fail('http', 'too many requests', 429)();
  };
  const installing = replicas.install(adapterOf(1));
  await timer.advance(2_000);
  await installing;
  expect([...servers[0]!.loaded.keys()]).toEqual(['run-v1']);
});

describe('an answer of a server that lost the adapter and was given it again during the call', () => {
  it.each([
    ['and is not proved', 'base'],
    ['and is proved', 'run-v1'],
  ])('%s: is not taken, the call is made again', async (_, served) => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    let release = (): void => {};
    for (const { faults } of servers)
      faults.complete = () => new Promise<void>((resolve) => (release = resolve));
    const call = replicas.complete(callOf('run-v1'));
    await settle();
    const [asked, other] = servers[0]!.log.includes('complete run-v1') ? servers : [...servers].reverse();
    asked!.restart();
    const { answersAs } = asked!;
    asked!.answersAs = () => answersAs(served);
    // The health check gives it the adapter; its proof comes after the answer.
    let score = (): void => {};
    asked!.faults.score = () => new Promise<void>((resolve) => (score = resolve));
    await timer.advance(1_000);
    expect([...asked!.loaded.keys()]).toEqual(['run-v1']);
    for (const { faults } of servers) delete faults.complete;
    release();
    await settle();
    expect((await call).model).toBe('run-v1');
    expect(other!.log).toContain('complete run-v1');
    score();
    await settle();
    expect(outOf(replicas)).toHaveLength(served === 'base' ? 1 : 0);
  });
});
