import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { stream } from '../../src/base/random.ts';
import { createStage, groupsBy, timeless, undisturbed } from './pool-support.ts';
import { hasRedis, startRedis } from './redis-server.ts';

const FIXTURE = fileURLToPath(new URL('./worker.fixture.ts', import.meta.url));

/** The large one, on a whole run, is `npm run chaos`. */
it.skipIf(!hasRedis)(
  'worker processes killed by -9, Redis killed, an endpoint that hangs and breaks: nothing is lost, used twice, or other',
  { timeout: 120_000 },
  async () => {
    const server = await startRedis();
    const stage = createStage(server.url);
    const results = join(stage.folder, 'results');
    const workers: ChildProcess[] = [];
    let started = 0;
    const start = (place: number): void => {
      const args = ['--import', 'tsx', FIXTURE, server.url, results, String(started++)];
      workers[place] = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    };
    try {
      for (const place of [0, 1, 2]) start(place);
      const pool = await stage.pool({ attempts: 100 });
      let over = false;
      const steps = (async () => {
        const out = [];
        for (const step of [1, 2, 3]) out.push(...(await groupsBy(pool, step, 4)));
        over = true;
        return out;
      })();
      const random = stream(1, 'kills');
      const files = (): number => {
        try {
          return readdirSync(results, { recursive: true }).length;
        } catch {
          return 0;
        }
      };
      // The trouble comes with the work: a slow machine gets it later, and as much of it.
      for (const seen of [8, 20, 35, 50]) {
        while (!over && files() < seen) await sleep(5);
        const place = random.int(workers.length);
        workers[place]!.kill('SIGKILL');
        start(place);
        if (seen === 20) await server.restart({ signal: 'SIGKILL', downMs: 100 });
      }
      const expected = [];
      for (const step of [1, 2, 3]) expected.push(...(await undisturbed(step, 4)));
      expect((await steps).map(timeless)).toEqual(expected);
      expect(await pool.counts()).toMatchObject({ ok: 72, failed: 0, failedAttempts: 0 });
    } finally {
      await Promise.all(
        workers
          .filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
          .map((worker) => {
            worker.kill('SIGKILL');
            return once(worker, 'exit');
          }),
      );
      await stage.close();
      await server.stop();
    }
  },
);
