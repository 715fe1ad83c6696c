/** A proxy before a policy server that breaks the sampling calls of rollouts: errors, hangs, lost connections. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { stream } from '../../src/base/random.ts';

export interface FaultShares {
  /** Shares of the calls, together below 1. */
  status500: number;
  status503: number;
  hang: number;
  reset: number;
}

export interface FaultProxy {
  url: string;
  /** How often each fault came, and `passed`. */
  counts: Record<keyof FaultShares | 'passed', number>;
  /** Passes everything until then. */
  begin(): void;
  close(): void;
}

/** Only sampled completions are broken: what the trainer publishes and evaluates passes. */
export async function startFaultProxy(
  target: string,
  shares: FaultShares,
  seed: number,
): Promise<FaultProxy> {
  const random = stream(seed, 'proxy');
  const counts = { passed: 0, status500: 0, status503: 0, hang: 0, reset: 0 };
  let begun = false;
  const draw = (body: string): keyof typeof counts => {
    if (!begun || !isRollout(body)) return 'passed';
    let left = random.next();
    for (const kind of Object.keys(shares) as (keyof FaultShares)[]) {
      left -= shares[kind];
      if (left < 0) return kind;
    }
    return 'passed';
  };
  const server = createServer(async (asked, answer) => {
    let body = '';
    for await (const chunk of asked) body += chunk;
    const fault = draw(body);
    counts[fault]++;
    switch (fault) {
      case 'hang':
        return;
      case 'reset':
        return void asked.socket.destroy();
      case 'status500':
      case 'status503':
        answer.writeHead(fault === 'status500' ? 500 : 503, { 'content-type': 'application/json' });
        return void answer.end(
          JSON.stringify({ error: { message: 'chaos', type: 'InternalServerError', code: 500 } }),
        );
      case 'passed':
        pass(target, asked, body, answer);
    }
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    begin() {
      begun = true;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Sampled at a temperature, and no proof of publication. */
function isRollout(body: string): boolean {
  if (!body.startsWith('{')) return false;
  const { temperature, prompt_logprobs } = JSON.parse(body) as Record<string, unknown>;
  return typeof temperature === 'number' && temperature > 0 && prompt_logprobs === undefined;
}

function pass(target: string, asked: IncomingMessage, body: string, answer: ServerResponse): void {
  const { host: _, ...headers } = asked.headers;
  const onward = request(new URL(asked.url!, target), { method: asked.method, headers }, (told) => {
    answer.writeHead(told.statusCode!, told.headers);
    told.pipe(answer);
  });
  onward.on('error', () => asked.socket.destroy());
  answer.on('close', () => onward.destroy());
  onward.end(body);
}
