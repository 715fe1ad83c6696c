import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';

// What `npm test` has done already: the program would say that it compiles.
beforeAll(() => void execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' }));

test.skipIf(!existsSync('/dev/full'))('output that is lost is never a success', () => {
  const full = openSync('/dev/full', 'w');
  const { status, stderr } = spawnSync(process.execPath, ['bin/lexpo.js', '--version'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  });
  expect(status).toBe(1);
  expect(stderr).toMatch(/^lexpo: stdout: cannot be written \(ENOSPC.*\)\n$/);
});
