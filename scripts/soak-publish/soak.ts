/**
 * Publications over three hostile servers with rollouts under way all the time, and every accepted answer held
 * against the weights that it was asked of. The servers fail as planned; between two publications they get
 * another script. Now and then all faults end for a while: then every replica has to come back, a publication
 * has to succeed, and each server may hold nothing but the versions in use.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, UserError } from '../../src/base/errors.ts';
import { stream } from '../../src/base/random.ts';
import { createEndpoint, RolloutFailure } from '../../src/rollout/endpoint.ts';
import { createReplicas, type ReplicasOptions, type Timer } from '../../src/rollout/replicas.ts';
import type { publish } from '../../src/trainer/publish.ts';
import {
  fakeModel,
  type HostileEndpoint,
  startHostileEndpoint,
} from '../../test/hostile-endpoint/hostile-endpoint.ts';
import { DEADLINE_MS, nameOf, namePlanned, type Planned, plannedFaults, scriptOf } from './faults.ts';
import { emptyTally, type Hit, note, type Tally } from './tally.ts';
import { isBy, learnerOf, walk } from './truth.ts';

export interface SoakOptions {
  publishes: number;
  seed: number;
  mode: ReplicasOptions['onPartialFailure'];
  /** Folder for the adapters. */
  scratch: string;
  /** What publishes: `publish`, or in a test of the soak itself one that proves nothing. */
  publish: typeof publish;
  /** Which of the planned faults occur; default: all. */
  only?: (planned: Planned) => boolean;
  say(line: string): void;
}

const REPLICAS = 3;
const WORKERS = 6;
const PAUSE_MS = 25;
/** Publications between two times without faults. */
const CALM_EVERY = 10;
/** Tries of a publication without faults. */
const CALM_TRIES = 5;
/** Real milliseconds in which all replicas have to be back once faults have ended. */
const BACK_WITHIN_MS = 30_000;
/** Versions that stay in use beside the current one: rollouts of workers that lag. */
const STALENESS = 1;
const TOLERANCE = 2e-3;

/** The replicas' waits (health checks, repeats) pass five times as fast, to meet more faults in an hour. */
const FAST = 5;
const timer: Timer = {
  now: () => FAST * performance.now(),
  after(ms, run) {
    const handle = setTimeout(run, ms / FAST);
    return () => clearTimeout(handle);
  },
};

export async function soak(options: SoakOptions): Promise<Tally> {
  const { publishes, seed, mode, scratch, say } = options;
  const random = stream(seed, 'soak', mode);
  const tally = emptyTally();
  const adapters = walk(seed, mode, publishes + CALM_TRIES * (Math.ceil(publishes / CALM_EVERY) + 1) + 2);
  const servers = await Promise.all(
    Array.from({ length: REPLICAS }, (_, i) => startHostileEndpoint([], { seed: seed + i })),
  );
  const replicas = createReplicas({
    replicas: servers.map(({ url }) => ({ name: url, adapterRoot: null, endpoint: clientOf(url) })),
    deadlineMs: 2_000,
    maxConcurrent: 64,
    onPartialFailure: mode,
    tolerance: TOLERANCE,
    staleness: STALENESS,
    healthEveryMs: 500,
    timer,
    say(line) {
      if (line.includes(' leaves the rotation')) tally.exits++;
      if (line.endsWith(' is back')) tally.comebacks++;
      say(line);
    },
  });
  const target = {
    replicas,
    adapterRoot: join(scratch, mode),
    runName: 'soak',
    baseModel: 'base',
    probeIds: [3, 9, 27, 5, 14, 8, 21, 2],
  };
  /** The versions in use, newest first. */
  let inUse: { model: string; version: number }[] = [];
  let next = 0;

  /** Publishes the next version; what went wrong, or null. */
  async function put(): Promise<unknown> {
    const version = next++;
    const adapter = adapters[version]!;
    try {
      const policy = await options.publish(target, learnerOf(adapter), adapter, version);
      inUse = [policy, ...inUse].slice(0, 1 + STALENESS);
      return null;
    } catch (error) {
      if (!(error instanceof UserError) && !(error instanceof RolloutFailure)) throw error;
      say(`v${version} is not published: ${messageOf(error)}`);
      return error;
    }
  }

  /** Publishes while nothing is in the way: a busy machine alone may miss the short deadline, not again and again. */
  async function putCalmly(): Promise<unknown> {
    for (let tries = 1; ; tries++) {
      const error = await put();
      if (!error || tries === CALM_TRIES) return error;
    }
  }

  async function rollouts(worker: number, ended: () => boolean): Promise<void> {
    const own = stream(seed, 'soak', mode, 'worker', worker);
    while (!ended()) {
      // One in eight is a worker that has not heard of the last version.
      const policy = own.int(8) === 0 ? inUse.at(-1)! : inUse[0]!;
      const promptIds = Array.from({ length: 3 + own.int(6) }, () => 2 + own.int(fakeModel.vocab - 2));
      try {
        const answer = await replicas.complete({
          model: policy.model,
          promptIds,
          maxTokens: 4,
          temperature: 1,
          seed: own.int(2 ** 31),
          stopTokenIds: [fakeModel.endId],
          cacheSalt: `v${policy.version}`,
        });
        tally.rollouts.accepted++;
        if (!isBy(answer, adapters[policy.version]!)) {
          tally.wrongPolicy++;
          const other = [null, ...adapters.slice(0, next)].findIndex((one) => isBy(answer, one));
          const who = other < 0 ? 'nobody known' : other === 0 ? 'the base model' : `v${other - 1}`;
          say(`WRONG POLICY: asked of v${policy.version}, answered by ${who}`);
        }
      } catch (error) {
        if (!(error instanceof RolloutFailure)) throw error;
        const { failed } = tally.rollouts;
        failed[error.reason] = (failed[error.reason] ?? 0) + 1;
      }
      await sleep(PAUSE_MS);
    }
  }

  /** Publishes while what is planned goes wrong, and notes what came of it. */
  async function disturbed(planned: readonly Planned[]): Promise<void> {
    for (const [i, server] of servers.entries()) server.play(scriptOf(planned, i, random));
    const outages = Promise.all(planned.map((one) => interrupt(one, servers)));
    const { exits } = tally;
    const error = await put();
    await outages;
    const all = exits === tally.exits && replicas.state().every(({ out }) => out === null);
    const hits = [...takeHits(servers), ...planned.flatMap(hitOf)];
    note(tally, error ? 'keptOld' : all ? 'everywhere' : 'withoutSome', hits, planned.map(namePlanned));
  }

  /** No faults: all come back, a version is published, and nothing is loaded but what is in use. */
  async function calm(): Promise<void> {
    for (const server of servers) server.play([]);
    const back = await within(BACK_WITHIN_MS, () => replicas.state().every(({ out }) => out === null));
    if (!back) {
      tally.calm.stuck++;
      const out = replicas.state().flatMap((one) => (one.out === null ? [] : [`${one.name}: ${one.out}`]));
      say(`STUCK: ${out.join('; ')}`);
    }
    const error = await putCalmly();
    if (error) {
      tally.calm.refused++;
      say(`REFUSED without a fault: ${messageOf(error)}`);
    }
    tally.calm.times++;
    const names = inUse.map(({ model }) => model).sort();
    const clean = (): boolean => leftOver(servers, names) === 0 && servers.every((one) => hasAll(one, names));
    if (!(await within(BACK_WITHIN_MS, clean))) {
      tally.leaked += leftOver(servers, names);
      say(`LEFT OVER beside ${names}: ${servers.map((server) => namesOf(server).join(' ')).join(' | ')}`);
    }
  }

  let ended = false;
  try {
    if (await putCalmly())
      throw new Error('the first version was not published, though nothing was in its way');
    const working = Promise.all(Array.from({ length: WORKERS }, (_, i) => rollouts(i, () => ended)));
    // A worker that throws ends the soak at once.
    const work = working.then(() => {});
    let queue: Planned[] = [];
    for (let done = 0; done < publishes; done++) {
      const planned: Planned[] = [];
      for (let n = random.int(10) === 0 ? 2 : 1; n > 0; n--) {
        if (queue.length === 0) queue = plannedFaults(random, REPLICAS).filter(options.only ?? (() => true));
        planned.push(queue.pop()!);
      }
      await Promise.race([disturbed(planned), work]);
      if ((done + 1) % CALM_EVERY === 0 || done + 1 === publishes) await Promise.race([calm(), work]);
    }
    ended = true;
    await working;
    tally.inRotation = replicas.state().filter(({ out }) => out === null).length;
    await replicas.close();
    tally.leaked += leftOver(servers, []);
    return tally;
  } finally {
    ended = true;
    await replicas.close();
    await Promise.all(servers.map((server) => server.close()));
  }
}

const clientOf = (baseUrl: string) =>
  createEndpoint({ baseUrl, deadlineMs: DEADLINE_MS, maxConcurrent: WORKERS });

/** A planned restart, at its moment. */
async function interrupt(planned: Planned, servers: readonly HostileEndpoint[]): Promise<void> {
  if (planned.kind !== 'restart') return;
  const server = servers[planned.replica]!;
  await sleep(planned.afterMs);
  await server.stop();
  await sleep(planned.forMs);
  await server.restart();
}

const hitOf = (planned: Planned): Hit[] =>
  planned.kind === 'restart' ? [{ where: 'process', name: namePlanned(planned) }] : [];

/** What the servers did wrong since this was last asked. */
const takeHits = (servers: readonly HostileEndpoint[]): Hit[] =>
  servers.flatMap(({ seen }) =>
    seen.splice(0).flatMap(({ route, fault }) => (fault ? [{ where: route, name: nameOf(fault) }] : [])),
  );

const namesOf = (server: HostileEndpoint): string[] => server.loaded().map(({ name }) => name);
const hasAll = (server: HostileEndpoint, names: readonly string[]): boolean =>
  names.every((name) => namesOf(server).includes(name));
const leftOver = (servers: readonly HostileEndpoint[], names: readonly string[]): number =>
  servers.flatMap(namesOf).filter((name) => !names.includes(name)).length;

/** Whether `done` becomes true in time. */
async function within(ms: number, done: () => boolean): Promise<boolean> {
  const until = performance.now() + ms;
  while (!done()) {
    if (performance.now() > until) return false;
    await sleep(20);
  }
  return true;
}
