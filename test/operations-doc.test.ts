/** docs/operations.md names every metric and every field of a log line that there is, and no metric that is not. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type Config, configSchema } from '../src/config/schema.ts';
import { logLine } from '../src/report/log.ts';
import { SERIES } from '../src/report/metrics.ts';
import { openMonitor } from '../src/trainer/monitor.ts';

const doc = readFileSync('docs/operations.md', 'utf8');

/** The names of all families that a process of this role can show. */
async function shown(role: 'trainer' | 'worker'): Promise<string[]> {
  const config: Config = configSchema.parse({
    run: { name: 'demo' },
    model: { path: 'm' },
    data: { corpus: 'c', train: 't', validation: 'v' },
    train: { steps: 1 },
    pool: {},
    monitor: { port: 0, workerPort: 0 },
  });
  const said: string[] = [];
  const monitor = await openMonitor({ config, role, now: Date.now, say: (line) => void said.push(line) });
  try {
    monitor.policyVersion(1);
    monitor.figures(1, role === 'trainer' ? Object.fromEntries(SERIES.map((name) => [name, 1])) : {});
    const answer = await fetch(/http:\S+\/metrics/.exec(said.join())![0]);
    return [...(await answer.text()).matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!);
  } finally {
    await monitor.close();
  }
}

test('every metric, and no other', async () => {
  const names = new Set([...(await shown('trainer')), ...(await shown('worker'))]);
  expect(names.size).toBeGreaterThan(40);
  const told = new Set([...doc.matchAll(/`((?:lexpo|process|nodejs)_[a-z0-9_]+)/g)].map(([, name]) => name!));
  expect([...names].filter((name) => !told.has(name))).toEqual([]);
  expect([...told].filter((name) => !names.has(name))).toEqual([]);
});

test('every field of a log line', () => {
  const line = logLine('step 1: trajectory q/0/0 failed', 0, { run: 'demo', worker: 'trainer' });
  for (const field of Object.keys(line)) expect(doc).toContain(`| \`${field}\` |`);
});
