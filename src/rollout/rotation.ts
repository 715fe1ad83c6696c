/** Who is in rotation, who is out and why, and who waits for a replica to come back. */
import type { AdapterHost } from './replica-adapters.ts';
import { RolloutFailure } from './rollout-failure.ts';

/** Time, from outside. */
export interface Timer {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Calls `run` once after `ms`; the returned function takes that back. */
  after(ms: number, run: () => void): () => void;
}

export const systemTimer: Timer = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export interface ReplicaOptions extends AdapterHost {
  /** What messages call it: its address. */
  name: string;
}

export interface Member extends ReplicaOptions {
  /** Why it is out of rotation; null: it is in. */
  out: string | null;
  /** Calls under way, and those by model. */
  inFlight: number;
  asked: Map<string, number>;
  /** Adapters that are ours to unload. */
  loaded: Set<string>;
  /** How often each adapter was sent to it to be loaded, ever. */
  loads: Map<string, number>;
  /** How often it left the rotation. */
  exits: number;
  /** Health checks in a row without an answer in time. */
  misses: number;
  checking: Promise<void> | null;
}

export interface ReplicaState {
  name: string;
  /** Why it is out of rotation; null: it is in. */
  out: string | null;
  inFlight: number;
  /** Adapters that were loaded on it here and have not been unloaded. */
  loaded: string[];
  /** How often it left the rotation. */
  exits: number;
}

export interface Rotation {
  members: readonly Member[];
  state(): ReplicaState[];
  inRotation(): Member[];
  takeOut(member: Member, reason: string): void;
  bringBack(member: Member): void;
  /**
   * `tell` is called, and has to end well, each time before adapters are loaded on a replica that is out:
   * whoever calls replicas by himself must know by then. When it fails the replica stays out.
   */
  onReturn(tell: () => Promise<void>): void;
  tellReturn(): Promise<void>;
  /** The replicas in rotation, waited for until the time `until`; RolloutFailure with every reason when there is none. */
  some(until: number): Promise<Member[]>;
  /** Nobody leaves, comes back or waits any more. */
  close(): void;
}

export function createRotation(
  replicas: readonly ReplicaOptions[],
  timer: Timer,
  say: (line: string) => void,
): Rotation {
  const members = replicas.map(
    (replica): Member => ({
      ...replica,
      out: null,
      inFlight: 0,
      asked: new Map(),
      loaded: new Set(),
      loads: new Map(),
      exits: 0,
      misses: 0,
      checking: null,
    }),
  );
  const waiting = new Set<() => void>();
  let closed = false;
  let told = async (): Promise<void> => {};
  const inRotation = (): Member[] => members.filter(({ out }) => out === null);
  const wakeAll = (): void => {
    for (const wake of [...waiting]) wake();
  };

  /** Resolves when a replica came back, or at the time `until`. */
  function comeback(until: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        waiting.delete(done);
        cancel();
        resolve();
      };
      const cancel = timer.after(Math.max(0, until - timer.now()), done);
      waiting.add(done);
    });
  }

  function noneLeft(): RolloutFailure {
    const what = members.length === 1 ? 'the server is gone' : 'no replica is left';
    const reasons = members.map(({ name, out }) => `${name}: ${out}`).join('; ');
    return new RolloutFailure('connection', `${what} (${reasons})`);
  }

  return {
    members,
    state: () =>
      members.map(({ name, out, inFlight, loaded, exits }) => ({
        name,
        out,
        inFlight,
        loaded: [...loaded],
        exits,
      })),
    inRotation,
    takeOut(member, reason) {
      if (closed) return;
      if (member.out === null) {
        member.exits++;
        say(`${member.name} leaves the rotation: ${reason}`);
      } else if (member.out !== reason) {
        say(`${member.name} stays out: ${reason}`);
      }
      member.out = reason;
    },
    bringBack(member) {
      if (closed) return;
      member.out = null;
      say(`${member.name} is back`);
      wakeAll();
    },
    onReturn(tell) {
      told = tell;
    },
    tellReturn: () => told(),
    async some(until) {
      for (;;) {
        const found = inRotation();
        if (found.length > 0) return found;
        if (closed || timer.now() >= until) throw noneLeft();
        await comeback(until);
      }
    },
    close() {
      closed = true;
      wakeAll();
    },
  };
}

/** Counts a call of `model` on `member` from now until the returned function is called. */
export function countCall(member: Member, model: string): () => void {
  const { asked } = member;
  member.inFlight++;
  asked.set(model, (asked.get(model) ?? 0) + 1);
  return () => {
    member.inFlight--;
    const left = asked.get(model)! - 1;
    if (left > 0) asked.set(model, left);
    else asked.delete(model);
  };
}

export const countLoad = ({ loads }: Member, adapter: string): void =>
  void loads.set(adapter, (loads.get(adapter) ?? 0) + 1);
