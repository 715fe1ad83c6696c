/** `GET /metrics` and `GET /health` of a process. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf, UserError } from '../base/errors.ts';
import { CONTENT_TYPE } from './prometheus.ts';

export interface MonitorServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /** The setting that the port comes from, for messages. */
  setting: string;
  metrics(): string;
  /** Null: alive and getting on; else what is wrong. */
  health(): string | null;
}

export interface MonitorServer {
  url: string;
  close(): Promise<void>;
}

/** UserError when the port is taken, or the address is none of this machine's. Never keeps the process alive. */
export async function startMonitorServer(options: MonitorServerOptions): Promise<MonitorServer> {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0];
    const answer = (status: number, type: string, body: string): void => {
      response.writeHead(status, { 'content-type': type, connection: 'close' });
      response.end(request.method === 'HEAD' ? undefined : body);
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') return answer(405, 'text/plain', 'GET only\n');
    if (path === '/metrics') return answer(200, CONTENT_TYPE, options.metrics());
    if (path !== '/health') return answer(404, 'text/plain', 'there are /metrics and /health\n');
    const problem = options.health();
    const body = problem === null ? { ok: true } : { ok: false, reason: problem };
    answer(problem === null ? 200 : 503, 'application/json', `${JSON.stringify(body)}\n`);
  });
  server.requestTimeout = 10_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(
        new UserError(
          `cannot listen on ${options.host} port ${options.port} (${messageOf(error)})`,
          options.setting,
          `give a free port, such as --set ${options.setting}=0 for any`,
        ),
      ),
    );
    server.listen(options.port, options.host, resolve);
  });
  server.unref();
  const { address, port } = server.address() as AddressInfo;
  return {
    url: `http://${address.includes(':') ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
