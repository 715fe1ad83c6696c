/** A worker's calls over the policy servers that the trainer has in rotation. */
import type { CompletionCall, Endpoint } from '../endpoint.ts';
import { chooseReplica } from '../routing.ts';

interface Server {
  name: string;
  inFlight: number;
  endpoint: Pick<Endpoint, 'complete'>;
}

/**
 * `complete` on the server that `chooseReplica` picks among `urls()`. Which servers live the trainer says; a
 * call that fails fails its job, which is tried again.
 */
export function spreadCalls(
  urls: () => readonly string[],
  open: (url: string) => Pick<Endpoint, 'complete'>,
): Pick<Endpoint, 'complete'> {
  const servers = new Map<string, Server>();
  const serverOf = (name: string): Server => {
    const known = servers.get(name) ?? { name, inFlight: 0, endpoint: open(name) };
    servers.set(name, known);
    return known;
  };
  return {
    async complete(call: CompletionCall) {
      const server = chooseReplica(urls().map(serverOf), call.promptIds)!;
      server.inFlight++;
      try {
        return await server.endpoint.complete(call);
      } finally {
        server.inFlight--;
      }
    },
  };
}
