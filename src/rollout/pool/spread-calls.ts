/** A worker's calls over the policy servers that the trainer has in rotation. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CompletionCall, Endpoint } from '../endpoint.ts';
import { RolloutFailure } from '../rollout-failure.ts';
import { chooseReplica } from '../routing.ts';
import type { Servers } from './job.ts';

interface Server {
  name: string;
  inFlight: number;
  endpoint: Pick<Endpoint, 'complete'>;
}

export interface SpreadCallsOptions {
  /** The servers in rotation as last heard. */
  servers(): Servers;
  /** Asks the trainer's announcement which they are now. */
  ask(): Promise<Servers>;
  open(url: string): Pick<Endpoint, 'complete'>;
}

/** Between two looks whether a server has come back. */
const LOOK_MS = 200;

/**
 * `complete` on the server that `chooseReplica` picks among those in rotation; while none is, it waits for one
 * until the call's signal fires. Which servers live the trainer says. An answer counts only if the server has
 * not left since: one that was started again may answer by what nobody has proved yet, under the same
 * name. A call that fails, or does not count, fails its job, which is tried again.
 */
export function spreadCalls({ servers, ask, open }: SpreadCallsOptions): Pick<Endpoint, 'complete'> {
  const known = new Map<string, Server>();
  const serverOf = (name: string): Server => {
    const server = known.get(name) ?? { name, inFlight: 0, endpoint: open(name) };
    known.set(name, server);
    return server;
  };
  return {
    async complete(call: CompletionCall) {
      const choose = () => chooseReplica(Object.keys(servers()).map(serverOf), call.promptIds);
      let server = choose();
      for (; !server; server = choose()) {
        if (call.signal?.aborted) throw new RolloutFailure('connection', 'no policy server is in rotation');
        await sleep(LOOK_MS);
      }
      const stay = servers()[server.name];
      server.inFlight++;
      try {
        const answer = await server.endpoint.complete(call);
        if ((await ask())[server.name] === stay) return answer;
        throw new RolloutFailure('connection', `${server.name} left the rotation during the call`);
      } finally {
        server.inFlight--;
      }
    },
  };
}
