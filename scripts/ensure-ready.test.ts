import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';

const SCRIPT = new URL('./ensure-ready.mjs', import.meta.url).href;

/** An npm that notes each call, takes a moment, and installs a compiler that copies src to dist. */
const NPM = `
  const fs = require('fs');
  fs.appendFileSync('npm-calls', process.argv.slice(2).join(' ') + '\\n');
  if (fs.existsSync('offline')) { console.error('npm error network request failed'); process.exit(1); }
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
  fs.rmSync('node_modules', { recursive: true, force: true });
  fs.mkdirSync('node_modules/typescript/bin', { recursive: true });
  fs.writeFileSync('node_modules/typescript/bin/tsc', \`
    const fs = require('fs');
    fs.appendFileSync('tsc-calls', 'x');
    const text = fs.readFileSync('src/a.ts', 'utf8');
    if (text === 'wrong') { console.log('src/a.ts(1,1): error TS1'); process.exit(2); }
    fs.writeFileSync('dist/a.js', text);
  \`);
  const lock = JSON.parse(fs.readFileSync('package-lock.json', 'utf8'));
  delete lock.packages['node_modules/for-another-platform'];
  fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify(lock));
`;

let root = '';
const write = (path: string, text: string): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
const read = (path: string): string =>
  existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : '';
const lockOf = (version: string): string =>
  JSON.stringify({
    packages: {
      '': { version: '1.0.0' },
      'node_modules/typescript': { version },
      'node_modules/for-another-platform': { version: '1.0.0', optional: true },
    },
  });

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'lexpo-ready-'));
  write('package-lock.json', lockOf('5.0.0'));
  write('tsconfig.json', '{}');
  write('tsconfig.build.json', '{}');
  write('src/a.ts', 'one');
  write('npm/npm-cli.js', NPM);
});

const command = (): [string[], NodeJS.ProcessEnv] => [
  [
    '--input-type=module',
    '-e',
    `const { ensureReady } = await import(${JSON.stringify(SCRIPT)});
     try { ensureReady(${JSON.stringify(root)}); } catch (error) { console.error(error.message); process.exit(1); }`,
  ],
  { ...process.env, npm_execpath: join(root, 'npm', 'npm-cli.js') },
];

function ready(): { status: number | null; err: string } {
  const [args, env] = command();
  const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  return { status, err: stderr };
}

test('installs and compiles once, and then does nothing', () => {
  const first = ready();
  expect(first.status).toBe(0);
  expect(first.err).toContain('installing dependencies');
  expect(read('npm-calls')).toMatch(/^ci --include=dev /);
  expect(read('dist/a.js')).toBe('one');
  expect(ready()).toEqual({ status: 0, err: '' });
  expect(read('npm-calls').split('\n')).toHaveLength(2);
  expect(read('tsc-calls')).toBe('x');
});

test('compiles again when a source changed, came or went, but not for a test', () => {
  ready();
  write('src/a.test.ts', 'x');
  expect(ready().err).toBe('');
  write('src/a.ts', 'two');
  utimesSync(join(root, 'src/a.ts'), 1, 1);
  expect(ready().err).toContain('compiling');
  expect(read('dist/a.js')).toBe('two');
  write('src/b.ts', '');
  expect(ready().err).toContain('compiling');
  rmSync(join(root, 'src/b.ts'));
  expect(ready().err).toContain('compiling');
  expect(ready().err).toBe('');
});

test('what was compiled from a source that is gone goes with it, and nothing else', () => {
  ready();
  for (const name of ['old/b.js', 'old/b.js.map', 'old/b.d.ts', 'a.d.ts', 'tables.json'])
    write(`dist/${name}`, 'x');
  write('src/a.ts', 'two');
  utimesSync(join(root, 'src/a.ts'), 1, 1);
  expect(ready().status).toBe(0);
  expect(['old/b.js', 'old/b.js.map', 'old/b.d.ts'].map((name) => read(`dist/${name}`))).toEqual([
    '',
    '',
    '',
  ]);
  expect(['a.js', 'a.d.ts', 'tables.json'].map((name) => read(`dist/${name}`))).toEqual(['two', 'x', 'x']);
});

test('installs again when the lock file asks for another version, or a package is gone', () => {
  ready();
  write('package-lock.json', lockOf('5.1.0'));
  expect(ready().err).toContain('installing');
  rmSync(join(root, 'node_modules/typescript'), { recursive: true });
  expect(ready().err).toContain('installing');
  rmSync(join(root, 'node_modules/.package-lock.json'));
  expect(ready().err).toContain('installing');
  expect(ready().err).toBe('');
});

test('says what npm said and what to do, and works once npm does', () => {
  write('offline', '');
  const failed = ready();
  expect(failed.status).toBe(1);
  expect(failed.err).toContain('npm error network request failed');
  expect(failed.err).toContain('→ check the connection');
  rmSync(join(root, 'offline'));
  expect(ready().status).toBe(0);
});

test('what does not compile is shown, and compiled once it is corrected', () => {
  write('src/a.ts', 'wrong');
  const failed = ready();
  expect(failed.status).toBe(1);
  expect(failed.err).toContain('src/a.ts(1,1): error TS1');
  expect(ready().status).toBe(1);
  write('src/a.ts', 'right');
  expect(ready().status).toBe(0);
  expect(read('dist/a.js')).toBe('right');
});

test('several at once: one works, the others wait for it; a lock left by a killed one is no obstacle', async () => {
  const { pid } = spawnSync(process.execPath, ['-e', '']);
  write('dist/.lock', String(pid));
  const codes = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const [args, env] = command();
      const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
      const [code] = (await once(child, 'exit')) as [number];
      return code;
    }),
  );
  expect(codes).toEqual([0, 0, 0]);
  expect(read('npm-calls').split('\n')).toHaveLength(2);
  expect(read('tsc-calls')).toBe('x');
  expect(existsSync(join(root, 'dist/.lock'))).toBe(false);
});
