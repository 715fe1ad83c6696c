/** `lexpo doctor` of a configuration that is retrained: what would keep the nightly job from its work. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { ABSENT, examine, file } from './test-support-doctor.ts';

afterEach(() => {
  delete process.env.LEXPO_TEST_PASSWORD;
});

const nightly = (more: object = {}) => ({
  ...ABSENT,
  retrain: {
    inbox: file('inbox'),
    registry: file('registry'),
    redis: { url: 'redis://127.0.0.1:1', passwordEnv: 'LEXPO_TEST_PASSWORD' },
    ...more,
  },
});

test('the inbox must be there, the registry writable, and no Redis is a warning alone', async () => {
  const absent = await examine(nightly());
  expect(absent.statuses).toMatchObject({ inbox: 'fail', registry: 'ok', schedules: 'warn' });
  expect(absent.text('inbox')).toMatch(/inbox: no such folder → make it/);
  expect(absent.text('registry')).toMatch(/can be written, champion none yet, 0 lines of history/);
  expect(existsSync(file('registry'))).toBe(false);
  expect(absent.text('schedules')).toMatch(
    /LEXPO_TEST_PASSWORD: is not set → .*lexpo retrain needs no Redis/,
  );
  mkdirSync(file('inbox'));
  writeFileSync(file('inbox/a.jsonl'), '');
  writeFileSync(file('inbox/.coming.jsonl'), '');
  process.env.LEXPO_TEST_PASSWORD = 'hunter2';
  const there = await examine(nightly());
  expect(there.statuses.inbox).toBe('ok');
  expect(there.text('inbox')).toContain('1 file of pairs');
  expect(there.text('schedules')).toMatch(/cannot be reached.*→ .*retrain\.redis/);
  expect(there.text('schedules')).not.toContain('hunter');
}, 30_000);

test('a registry that cannot be written, or holds what is no registry', async () => {
  writeFileSync(file('taken'), '');
  expect((await examine(nightly({ registry: file('taken/registry') }))).statuses.registry).toBe('fail');
  mkdirSync(file('registry'));
  writeFileSync(file('registry/current.json'), '{"format": 9}');
  const broken = await examine(nightly());
  expect(broken.statuses.registry).toBe('fail');
  expect(broken.text('registry')).toContain('current.json');
}, 30_000);

test('a configuration that is not retrained is not asked for any of it', async () => {
  expect(Object.keys((await examine(ABSENT)).statuses)).not.toContain('inbox');
});
