/** A Redis of a test's own: a free port, a temporary folder, append-only on. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../free-port.ts';

/** Whether the program is there. Where LEXPO_NEED_REDIS is set its absence is a failure. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
if (!hasRedis) {
  const what = 'redis-server is not installed (Debian: apt-get install redis-server)';
  if (process.env.LEXPO_NEED_REDIS) throw new Error(what);
  console.warn(`tests with Redis are skipped: ${what}`);
}

export interface RedisServer {
  url: string;
  port: number;
  pid(): number;
  /** Ends it, by SIGTERM or SIGKILL, and starts it again on its data; `forget`: without them. */
  restart(options?: { signal?: 'SIGTERM' | 'SIGKILL'; forget?: boolean; downMs?: number }): Promise<void>;
  stop(): Promise<void>;
}

export async function startRedis(args: readonly string[] = []): Promise<RedisServer> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-redis-'));
  let child = await launch(port, folder, args);
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: () => child.pid!,
    async restart({ signal = 'SIGTERM', forget = false, downMs = 0 } = {}) {
      await end(signal);
      if (forget) rmSync(join(folder, 'appendonlydir'), { recursive: true, force: true });
      await sleep(downMs);
      child = await launch(port, folder, args);
    },
    async stop() {
      await end('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function launch(port: number, folder: string, args: readonly string[]): Promise<ChildProcess> {
  const fixed = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    '--save',
    '',
    '--appendonly',
    'yes',
  ];
  const child = spawn('redis-server', [...fixed, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let told = '';
  child.stdout!.on('data', (chunk: Buffer) => {
    told += chunk;
  });
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`redis-server ended: ${told}`);
    await sleep(20);
  }
  return child;
}

/** It answers a PING, be it that it wants a password; while it loads its data it does not. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.once('data', (data) => {
      socket.destroy();
      resolve(/PONG|NOAUTH/.test(data.toString()));
    });
    socket.once('error', () => resolve(false));
    socket.setTimeout(1_000, () => {
      socket.destroy();
      resolve(false);
    });
  });
}
