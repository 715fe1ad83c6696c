/** Publication over several servers: all or none, or without the bad one. */
import { describe, expect, it } from 'vitest';
import { PublishError } from './proof.ts';
import { RolloutFailure } from './rollout-failure.ts';
import { adapterOf, callOf, fail, fakeReplicas, settle } from './test-support-replicas.ts';

const outOf = (replicas: ReturnType<typeof fakeReplicas>['replicas']) =>
  replicas.state().flatMap(({ name, out }) => (out === null ? [] : [name]));
/** Waits of the retries included. */
async function resultOf(
  run: Promise<unknown>,
  timer: { advance(ms: number): Promise<void> },
): Promise<unknown> {
  const result = run.then(
    () => 'done',
    (error: unknown) => error,
  );
  await timer.advance(5_000);
  return result;
}

describe('install', () => {
  it('loads and proves on every replica, then unloads the version before', async () => {
    const { servers, replicas } = fakeReplicas(3);
    await replicas.install(adapterOf(1));
    await replicas.install(adapterOf(2));
    for (const { loaded, log } of servers) {
      expect([...loaded]).toEqual([['run-v2', '/here/adapters/run-v2']]);
      expect(log).toEqual(['load run-v1', 'load run-v2', 'unload run-v1']);
    }
  });

  it('gives each server the path that it sees', async () => {
    const { servers } = fakeReplicas(2);
    const own = fakeReplicas(0, {
      replicas: [
        { name: 'a', endpoint: servers[0]!.endpoint, adapterRoot: '/mnt/x/' },
        { name: 'b', endpoint: servers[1]!.endpoint, adapterRoot: null },
      ],
    });
    await own.replicas.install(adapterOf(1));
    expect(servers.map(({ loaded }) => loaded.get('run-v1'))).toEqual([
      '/mnt/x/run-v1',
      '/here/adapters/run-v1',
    ]);
  });

  it('keep-old: one that refuses leaves every replica on the old version, the new one unloaded again', async () => {
    const { servers, replicas } = fakeReplicas(3);
    await replicas.install(adapterOf(1));
    servers[1]!.faults.load = fail('http', 'rank 32 is above 16', 400);
    await expect(replicas.install(adapterOf(2))).rejects.toThrow(
      /run-v2: 1 of 3 replicas.*\n {2}a: could serve it\n {2}b: rank 32 is above 16\n {2}c: could serve it\n.*old version/s,
    );
    for (const { loaded } of servers) expect([...loaded.keys()]).toEqual(['run-v1']);
    expect(outOf(replicas)).toEqual([]);
    // One try: it was refused.
    expect(servers[1]!.log.filter((line) => line === 'load run-v2')).toHaveLength(1);
  });

  it('drop-replica: goes on without it, and takes it back when it serves the version in use', async () => {
    const { servers, replicas, timer } = fakeReplicas(2, { onPartialFailure: 'drop-replica' });
    await replicas.install(adapterOf(1));
    servers[1]!.faults.load = fail('http', 'disk full', 400);
    await replicas.install(adapterOf(2));
    expect(replicas.state()[1]).toMatchObject({ out: 'disk full' });
    for (let seed = 0; seed < 20; seed++) await replicas.complete(callOf('run-v2', [seed]));
    expect(servers[1]!.log).not.toContain('complete run-v2');
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual(['b']);
    servers[1]!.faults = {};
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual([]);
    expect([...servers[1]!.loaded.keys()]).toEqual(['run-v2']);
  });

  it('drop-replica: none left is a failure, and the old version stays', async () => {
    const { servers, replicas } = fakeReplicas(2, { onPartialFailure: 'drop-replica' });
    await replicas.install(adapterOf(1));
    for (const server of servers) server.faults.load = fail('http', 'full', 400);
    await expect(replicas.install(adapterOf(2))).rejects.toMatchObject({ problem: 'partial-failure' });
    expect(outOf(replicas)).toEqual([]);
    expect((await replicas.complete(callOf('run-v1'))).model).toBe('run-v1');
  });

  it.each([
    ['the base model', 'base', 'equals-base'],
    ['the version before', 'run-v1', 'equals-older'],
    ['something else', 'run-v9', 'differs-from-learner'],
  ])('a server that loads, lists, and answers with %s does not pass', async (_, other, problem) => {
    const { servers, replicas } = fakeReplicas(1);
    await replicas.install(adapterOf(1));
    const { answersAs } = servers[0]!;
    servers[0]!.answersAs = (name) => answersAs(name === 'run-v2' ? other : name);
    await expect(replicas.install(adapterOf(2))).rejects.toMatchObject({ problem });
    expect([...servers[0]!.loaded.keys()]).toEqual(['run-v1']);
  });

  it('a server that has the name from another folder does not pass', async () => {
    const { servers, replicas } = fakeReplicas(1);
    servers[0]!.loaded.set('run-v1', '/elsewhere/run-v1');
    await expect(replicas.install(adapterOf(1))).rejects.toMatchObject({ problem: 'wrong-root' });
    // It is not ours, so it stays.
    expect([...servers[0]!.loaded.keys()]).toEqual(['run-v1']);
  });

  it('a lost 200 is found in the list: the load is not sent again', async () => {
    const { servers, replicas, timer } = fakeReplicas(1);
    const [server] = servers;
    server!.faults.load = () => {
      server!.loaded.set('run-v1', '/here/adapters/run-v1');
      fail('connection', 'reset')();
    };
    expect(await resultOf(replicas.install(adapterOf(1)), timer)).toBe('done');
    expect(server!.log).toEqual(['load run-v1']);
  });

  it('a lost request is sent again, three times at most; a proof likewise', async () => {
    const { servers, replicas, timer } = fakeReplicas(1);
    let lost = 2;
    const losing = () => {
      if (lost-- > 0) fail('connection', 'reset')();
    };
    servers[0]!.faults.load = losing;
    expect(await resultOf(replicas.install(adapterOf(1)), timer)).toBe('done');
    lost = 2;
    servers[0]!.faults = { score: losing };
    expect(await resultOf(replicas.install(adapterOf(2)), timer)).toBe('done');
    lost = 3;
    servers[0]!.faults = { load: losing };
    expect(await resultOf(replicas.install(adapterOf(3)), timer)).toMatchObject({ reason: 'connection' });
    expect(servers[0]!.log.filter((line) => line === 'load run-v3')).toHaveLength(3);
  });

  it('a load that answers too late counts when it is listed, and is not sent again', async () => {
    const { servers, replicas, timer } = fakeReplicas(1);
    const [server] = servers;
    server!.faults.load = () => {
      server!.loaded.set('run-v1', '/here/adapters/run-v1');
      fail('deadline')();
    };
    expect(await resultOf(replicas.install(adapterOf(1)), timer)).toBe('done');
    server!.faults.load = fail('deadline');
    expect(await resultOf(replicas.install(adapterOf(2)), timer)).toMatchObject({ reason: 'deadline' });
    expect(server!.log.filter((line) => line.startsWith('load'))).toEqual(['load run-v1', 'load run-v2']);
  });

  it('a folder that the server does not find says what to share', async () => {
    const { servers, replicas, timer } = fakeReplicas(1);
    servers[0]!.faults.load = fail('http', 'No adapter found', 404);
    expect(String(await resultOf(replicas.install(adapterOf(1)), timer))).toMatch(/adapterRoot/);
  });

  it('a replica that dies meanwhile leaves the rotation under keep-old too, and the others flip', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    servers[1]!.faults.load = () => {
      servers[1]!.alive = false;
      fail('connection', 'reset')();
    };
    expect(await resultOf(replicas.install(adapterOf(2)), timer)).toBe('done');
    expect(outOf(replicas)).toEqual(['b']);
    servers[1]!.faults = {};
    servers[1]!.restart();
    await timer.advance(2_000);
    expect(outOf(replicas)).toEqual([]);
    expect([...servers[1]!.loaded.keys()]).toEqual(['run-v2']);
  });

  it('one that was started again while the others loaded does not flip with them', async () => {
    const { servers, replicas, timer } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    let release = (): void => {};
    servers[0]!.faults.load = () => new Promise<void>((resolve) => (release = resolve));
    const installing = replicas.install(adapterOf(2));
    await settle();
    // b has it; then it loses everything, and a health check brings it back with the old version.
    servers[1]!.restart();
    await timer.advance(1_500);
    expect([...servers[1]!.loaded.keys()]).toEqual(['run-v1']);
    release();
    await installing;
    for (let seed = 0; seed < 20; seed++)
      expect((await replicas.complete(callOf('run-v2', [seed]))).model).toBe('run-v2');
    await timer.advance(1_500);
    expect(outOf(replicas)).toEqual([]);
    expect([...servers[1]!.loaded.keys()]).toEqual(['run-v2']);
  });
});

it('a replica that is being made ready while the others flip comes back with the new version', async () => {
  const { servers, replicas, timer } = fakeReplicas(2);
  await replicas.install(adapterOf(1));
  let release = (): void => {};
  servers[1]!.restart();
  servers[1]!.faults.load = () => new Promise<void>((resolve) => (release = resolve));
  await timer.advance(1_000);
  expect(outOf(replicas)).toEqual(['b']);
  await replicas.install(adapterOf(2));
  servers[1]!.faults = {};
  release();
  await settle();
  expect(outOf(replicas)).toEqual([]);
  expect([...servers[1]!.loaded.keys()]).toEqual(['run-v2']);
});

describe('what stays loaded', () => {
  it('versions within the staleness bound, and those held', async () => {
    const { servers, replicas } = fakeReplicas(2, { staleness: 2 });
    for (let version = 0; version <= 5; version++) await replicas.install(adapterOf(version));
    await replicas.hold(adapterOf(1));
    await replicas.install(adapterOf(6));
    for (const { loaded } of servers)
      expect([...loaded.keys()].sort()).toEqual(['run-v1', 'run-v4', 'run-v5', 'run-v6']);
  });

  it('a version with a call under way, until that call ends, on that replica', async () => {
    const { servers, replicas } = fakeReplicas(2);
    await replicas.install(adapterOf(1));
    let release = (): void => {};
    for (const server of servers)
      server.faults.complete = () => new Promise<void>((resolve) => (release = resolve));
    const call = replicas.complete(callOf('run-v1'));
    await settle();
    const busy = servers.findIndex(({ log }) => log.includes('complete run-v1'));
    await replicas.install(adapterOf(2));
    expect([...servers[busy]!.loaded.keys()]).toEqual(['run-v1', 'run-v2']);
    expect([...servers[1 - busy]!.loaded.keys()]).toEqual(['run-v2']);
    release();
    expect((await call).model).toBe('run-v1');
    await settle();
    expect([...servers[busy]!.loaded.keys()]).toEqual(['run-v2']);
  });

  it('a server that never unloads is told, and in the end refused', async () => {
    const { servers, replicas, lines } = fakeReplicas(1);
    servers[0]!.faults.unload = fail('http', 'oops', 500);
    let version = 0;
    const publishing = async (): Promise<void> => {
      for (; version < 50; version++) await replicas.install(adapterOf(version));
    };
    await expect(publishing()).rejects.toThrow(/does not unload/);
    expect(version).toBeLessThan(8);
    expect(lines).toContain('a does not unload run-v0: oops');
  });

  it('an unload that a server does not know is done', async () => {
    const { servers, replicas, lines } = fakeReplicas(1);
    await replicas.install(adapterOf(1));
    servers[0]!.faults.unload = fail('http', 'cannot be found', 404);
    await replicas.install(adapterOf(2));
    expect(lines).toEqual([]);
    expect(replicas.state()[0]!.loaded).toEqual(['run-v2']);
  });

  it('close unloads what was loaded here; what was found there only when it is adopted', async () => {
    for (const adopt of [false, true]) {
      const { servers, replicas } = fakeReplicas(1, { adopt });
      servers[0]!.loaded.set('run-v1', '/here/adapters/run-v1');
      await replicas.hold(adapterOf(1));
      await replicas.install(adapterOf(2));
      await replicas.close();
      expect([...servers[0]!.loaded.keys()]).toEqual(adopt ? [] : ['run-v1']);
    }
  });
});

it('an error of a single replica comes as it is', async () => {
  const { servers, replicas } = fakeReplicas(1);
  const failure = new RolloutFailure('http', 'CUDA out of memory', 400);
  servers[0]!.faults.load = () => {
    throw failure;
  };
  await expect(replicas.install(adapterOf(1))).rejects.toBe(failure);
  servers[0]!.faults = { list: fail('http', 'x', 400) };
  await expect(replicas.install(adapterOf(1))).rejects.not.toBeInstanceOf(PublishError);
});
