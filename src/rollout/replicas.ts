/**
 * Several servers of one base model, used as one. A replica is in rotation or out of it, with a reason.
 *
 * It leaves when a call or a health check finds no server there, when it no longer knows an adapter that it
 * has to serve (it was started again), and, with `drop-replica`, when it cannot serve a new version. It comes
 * back after every version in use has been loaded and proved on it again; each health check tries that.
 *
 * A version is in use from its publication until `staleness` later ones have been published. Then it is
 * unloaded from each replica as soon as no call under its name is under way there. Folders are never deleted:
 * a server may read one again at any time.
 */
import { messageOf, UserError } from '../base/errors.ts';
import type { CompletionCall, Endpoint, ModelCard } from './endpoint.ts';
import { createLimit } from './limit.ts';
import { type ServedAdapter, saltOf } from './proof.ts';
import {
  type Attempt,
  loadOn,
  mayBeDead,
  misplaced,
  proveOn,
  spreadError,
  unloadFrom,
} from './replica-adapters.ts';
import { RolloutFailure } from './rollout-failure.ts';
import type { Member, ReplicaOptions, Rotation, Timer } from './rotation.ts';
import { countCall, countLoad, createRotation } from './rotation.ts';
import { chooseReplica } from './routing.ts';

export { type ReplicaOptions, type ReplicaState, systemTimer, type Timer } from './rotation.ts';

export interface ReplicasOptions {
  /** At least one. */
  replicas: ReplicaOptions[];
  /** How long a call waits for a replica to come back when none is left, milliseconds. */
  deadlineMs: number;
  /** Samples under way at once, on all replicas together. */
  maxConcurrent: number;
  onPartialFailure: 'keep-old' | 'drop-replica';
  /** Largest |Δ log-probability| (nats) of a proof. */
  tolerance: number;
  /** Published versions before the current one that stay in use; default 0: the current one only. */
  staleness?: number;
  /** Default false: what is found loaded stays loaded at the end. True: it is an earlier process of this run's. */
  adopt?: boolean;
  healthEveryMs: number;
  timer: Timer;
  /** What happens to replicas, a line each. */
  say(line: string): void;
}

export interface Replicas extends Pick<Rotation, 'state' | 'onReturn'> {
  /**
   * As an endpoint's `complete`, on the replica that `chooseReplica` says. A call that a replica lost is made
   * again on another one, with the same seed. When none is left it waits for one, within `deadlineMs`. The
   * cache salt of an adapter that was proved says which weights it has.
   */
  complete: Endpoint['complete'];
  /**
   * Loads and proves `adapter` on every replica in rotation, and only then makes it the version in use.
   * Replicas that do not answer at all leave the rotation; what becomes of one that refuses, or does not pass
   * the proof, `onPartialFailure` says.
   *
   * @throws PublishError, UserError or RolloutFailure when the old version stays: the new one is then unloaded
   *   again wherever it was loaded.
   */
  install(adapter: ServedAdapter): Promise<void>;
  /** As `install`, beside the current version, until the end: for looking at older adapters. */
  hold(adapter: ServedAdapter): Promise<void>;
  /** Ends the health checks, and unloads what was loaded here. */
  close(): Promise<void>;
}

/** Health checks without an answer in time after which a replica counts as dead; a busy one may miss one. */
const MISSES = 2;
/** How often a call is made at most, and twice more for each replica. */
const TRIES = 3;
/** Adapters that a replica may fail to unload. */
const LEFT_OVER = 4;
/** Adapters that were to be published last, and may still be loaded somewhere though no version in use. */
const REMEMBERED = 8;

export function createReplicas(options: ReplicasOptions): Replicas {
  const { deadlineMs, tolerance, staleness = 0, healthEveryMs, timer, say } = options;
  const rotation = createRotation(options.replicas, timer, say);
  const { members, inRotation, takeOut } = rotation;
  const live = new Map<string, { adapter: ServedAdapter; held: boolean; salt: string | null }>();
  const limit = createLimit(options.maxConcurrent);
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void timer.after(ms, resolve));
  /** Names that are being loaded, and may become live. */
  const coming = new Set<string>();
  /** What a replica might answer with in place of a new adapter, beside the versions in use. */
  let remembered: ServedAdapter[] = [];
  /** Counts what has become live. */
  let changes = 0;
  let closed = false;
  let stopTimer = (): void => {};

  async function serve(member: Member, adapter: ServedAdapter): Promise<void> {
    if (member.loaded.size > live.size + LEFT_OVER)
      throw new UserError(
        `keeps ${member.loaded.size} adapters loaded of which ${live.size} are in use: it does not unload`,
        member.name,
        'start it again',
      );
    // Noted before it is sent: a load whose answer was lost has to be taken away too.
    const note = (): void => {
      member.loaded.add(adapter.name);
      countLoad(member, adapter.name);
    };
    if (options.adopt) note();
    const older = [...remembered, ...[...live.values()].map((other) => other.adapter)];
    try {
      await loadOn(member, adapter, wait, note);
      await proveOn(member, adapter, { tolerance, older }, wait);
    } catch (error) {
      // What is wrong under the name would be found there by the next try too.
      if (!mayBeDead(error) && member.loaded.has(adapter.name)) await discard(member, adapter.name);
      throw error;
    }
  }

  /** Unloads an adapter, unless a call of it is under way there. */
  async function discard(member: Member, name: string): Promise<void> {
    if (member.asked.has(name)) return;
    try {
      await unloadFrom(member, name);
      member.loaded.delete(name);
    } catch (error) {
      // Tried again at the next health check; `serve` refuses when it never succeeds.
      say(`${member.name} does not unload ${name}: ${messageOf(error)}`);
    }
  }

  /** Unloads what is not in use. */
  async function clear(member: Member): Promise<void> {
    for (const name of [...member.loaded])
      if (!live.has(name) && !coming.has(name)) await discard(member, name);
  }

  /** A load that was given up may be done all the same: what is listed later is unloaded then. */
  async function reclaim(member: Member, cards: readonly ModelCard[]): Promise<void> {
    for (const { id } of cards) if (member.loads.has(id)) member.loaded.add(id);
    await clear(member);
  }

  /** One health check at a time; a replica that is out and answers is made ready and comes back. */
  function check(member: Member): Promise<void> {
    member.checking ??= examine(member).finally(() => {
      member.checking = null;
    });
    return member.checking;
  }

  async function examine(member: Member): Promise<void> {
    const wanted = [...live.values()].map(({ adapter }) => adapter);
    try {
      await member.endpoint.health(Math.max(1_000, healthEveryMs));
      member.misses = 0;
      if (member.out === null) {
        const cards = await member.endpoint.listModels();
        const lost = misplaced(member, wanted, cards).filter(({ name }) => live.has(name));
        if (lost.length === 0) return await reclaim(member, cards);
        takeOut(member, `no longer has ${lost.map(({ name }) => name).join(', ')}: it was started again`);
      }
      await restore(member);
    } catch (error) {
      const late = error instanceof RolloutFailure && error.reason === 'deadline';
      if (member.out === null && late && ++member.misses < MISSES) return;
      takeOut(member, messageOf(error));
    }
  }

  async function restore(member: Member): Promise<void> {
    await rotation.tellReturn();
    for (let seen = -1; seen !== changes; ) {
      seen = changes;
      for (const { adapter } of [...live.values()]) await serve(member, adapter);
    }
    rotation.bringBack(member);
    await clear(member);
  }

  /** Whether a call that failed may be made again: the server is gone, or has lost the call or the adapter. */
  async function mayRepeat(member: Member, error: unknown, model: string): Promise<boolean> {
    if (!(error instanceof RolloutFailure)) return false;
    if (error.reason === 'unknown-model' && live.has(model)) {
      takeOut(member, `no longer has ${model}: it was started again`);
      void check(member);
      return true;
    }
    if (error.reason === 'deadline' || !mayBeDead(error)) return false;
    if (member.out === null) await check(member);
    return member.out !== null || error.reason === 'connection';
  }

  async function dispatch(call: CompletionCall): ReturnType<Endpoint['complete']> {
    const until = timer.now() + deadlineMs;
    let avoided: Member | null = null;
    for (let attempt = 1; ; attempt++) {
      const candidates = await rotation.some(until);
      const others = candidates.filter((member) => member !== avoided);
      const member = chooseReplica(others.length > 0 ? others : candidates, call.promptIds)!;
      const done = countCall(member, call.model);
      const salt = live.get(call.model)?.salt;
      const loads = member.loads.get(call.model);
      try {
        const answer = await member.endpoint.complete(salt ? { ...call, cacheSalt: salt } : call);
        // What was loaded in the meantime may have answered before it was proved.
        if (member.loads.get(call.model) === loads) return answer;
        throw new RolloutFailure('connection', `${member.name} was started again during the call`);
      } catch (error) {
        const last = attempt >= TRIES + 2 * members.length || timer.now() >= until;
        if (!(await mayRepeat(member, error, call.model)) || last) throw error;
        avoided = member;
      } finally {
        done();
        if (member.loaded.has(call.model) && !live.has(call.model)) void clear(member);
      }
    }
  }

  /** On one replica, and what came of it. */
  async function attempt(member: Member, adapter: ServedAdapter): Promise<Attempt & { member: Member }> {
    const { exits } = member;
    let error: unknown = null;
    try {
      await serve(member, adapter);
    } catch (thrown) {
      error = thrown;
      if (mayBeDead(error)) await check(member);
    }
    return { member, name: member.name, error, gone: member.exits === exits ? null : (member.out ?? 'left') };
  }

  async function spread(adapter: ServedAdapter, held: boolean): Promise<void> {
    const targets = await rotation.some(timer.now() + deadlineMs);
    coming.add(adapter.name);
    const tried = await Promise.all(targets.map((member) => attempt(member, adapter)));
    coming.delete(adapter.name);
    remembered = [adapter, ...remembered].slice(0, REMEMBERED);
    const good = new Set(tried.filter(({ error, gone }) => !error && !gone).map(({ member }) => member));
    const bad = tried.filter(({ error, gone }) => error && !gone);
    if (good.size === 0 || (bad.length > 0 && options.onPartialFailure === 'keep-old')) {
      await Promise.all(inRotation().map(clear));
      throw spreadError(adapter, members.length, tried);
    }
    for (const { member, error } of bad) takeOut(member, messageOf(error));
    if (!held) forgetBefore(adapter.version);
    live.set(adapter.name, { adapter, held, salt: saltOf(adapter) });
    changes++;
    // One that came back in the meantime has the old version.
    for (const member of inRotation()) {
      if (good.has(member)) continue;
      takeOut(member, `does not have ${adapter.name} yet`);
      void check(member);
    }
    await Promise.all(inRotation().map(clear));
  }

  /** Leaves of the live versions the newest `staleness` before `version`: some numbers were never published. */
  function forgetBefore(version: number): void {
    const ours = [...live.values()].filter(({ held }) => !held).map(({ adapter }) => adapter);
    const before = ours.filter((one) => one.version < version).sort((a, b) => b.version - a.version);
    const kept = before.slice(0, staleness);
    for (const adapter of ours) if (!kept.includes(adapter)) live.delete(adapter.name);
  }

  function tick(): void {
    stopTimer = timer.after(healthEveryMs, () => {
      void Promise.all(members.map(check)).then(() => {
        if (!closed) tick();
      });
    });
  }
  tick();

  return {
    complete: (call) => limit(() => dispatch(call)),
    install: (adapter) => spread(adapter, false),
    async hold(adapter) {
      const known = live.get(adapter.name);
      if (known) known.held = true;
      else await spread(adapter, true);
    },
    state: rotation.state,
    onReturn: rotation.onReturn,
    async close() {
      closed = true;
      stopTimer();
      rotation.close();
      live.clear();
      await Promise.all(inRotation().map(clear));
    },
  };
}
