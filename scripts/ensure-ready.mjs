/**
 * Makes a git checkout ready to run: installs the dependencies that package-lock.json names if they are not
 * all there, and compiles src to dist if it changed. Quick when there is nothing to do. Several at once wait
 * for each other. Needs Node 20 and npm only.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** Installs and builds what is missing below `root`; throws an Error with a plain message if it cannot. */
export function ensureReady(root = ROOT) {
  const [major] = process.versions.node.split('.');
  if (Number(major) < 20) throw new Error(`Node 20 or newer is needed; this is ${process.version}.`);
  if (isInstalled(root) && isBuilt(root)) return;
  const release = lock(join(root, 'dist', '.lock'));
  try {
    if (!isInstalled(root)) install(root);
    if (!isBuilt(root)) build(root);
  } finally {
    release();
  }
}

/**
 * Every package of package-lock.json is there in its version: npm notes at the end of an installation what
 * it installed in node_modules/.package-lock.json, so a half-finished one has no such note.
 */
export function isInstalled(root) {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages ?? {};
  const found = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages;
  if (!found) return false;
  return Object.entries(wanted).every(([path, { version, optional }]) => {
    if (path === '') return true;
    // A package for another platform is rightly absent.
    if (optional && !found[path]) return true;
    return found[path]?.version === version && existsSync(join(root, path));
  });
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/** dist was made from exactly these sources: it carries their fingerprint. */
export function isBuilt(root) {
  const stamp = join(root, 'dist', '.fingerprint');
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === fingerprint(root);
}

function fingerprint(root) {
  const hash = createHash('sha256');
  const add = (path) => {
    const { mtimeMs, size } = statSync(join(root, path));
    hash.update(`${path} ${mtimeMs} ${size}\n`);
  };
  for (const path of ['package-lock.json', 'tsconfig.json', 'tsconfig.build.json']) add(path);
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  for (const path of sources.sort())
    if (path.endsWith('.ts') && !path.endsWith('.test.ts')) add(join('src', path));
  return hash.digest('hex');
}

function install(root) {
  say('installing dependencies (npm ci); this is done once …');
  // Development packages too: the compiler is one of them. No CUDA libraries for onnxruntime.
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  const env = { ...process.env, ONNXRUNTIME_NODE_INSTALL: 'skip' };
  const npm = npmCommand();
  const result = spawnSync(npm.command, [...npm.args, ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
    shell: npm.shell,
  });
  if (result.status === 0) return;
  const output = result.error ? String(result.error.message) : `${result.stdout ?? ''}${result.stderr ?? ''}`;
  throw new Error(
    `npm ci failed in ${root}:\n${indent(output)}\n` +
      '  → check the connection to the package registry (npm ping), then run npm ci yourself',
  );
}

/** The npm that runs us where one does, else the one on the path. */
function npmCommand() {
  const running = process.env.npm_execpath ?? '';
  if (/^np[mx]-cli\.js$/.test(basename(running))) {
    const cli = join(dirname(running), 'npm-cli.js');
    if (existsSync(cli)) return { command: process.execPath, args: [cli], shell: false };
  }
  return { command: 'npm', args: [], shell: process.platform === 'win32' };
}

function build(root) {
  say('compiling src …');
  const before = fingerprint(root);
  const stamp = join(root, 'dist', '.fingerprint');
  rmSync(stamp, { force: true });
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const result = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (result.status !== 0)
    throw new Error(
      `src does not compile:\n${indent(`${result.stdout}${result.stderr}`)}\n  → correct it and start again`,
    );
  removeStale(root);
  writeFileSync(stamp, before);
}

/** Removes what an earlier compilation left of sources that are gone: dist is shipped as it is. */
function removeStale(root) {
  const dist = join(root, 'dist');
  for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    const [, stem] = /^(.*?)(?:\.d\.ts|\.js|\.js\.map)$/.exec(name) ?? [];
    if (stem !== undefined && !existsSync(join(root, 'src', `${stem}.ts`))) rmSync(join(dist, name));
  }
}

/** Takes the lock file, waiting while a living process holds it; gives the function that frees it. */
function lock(path) {
  mkdirSync(dirname(path), { recursive: true });
  let told = false;
  for (;;) {
    if (create(path)) return () => rmSync(path, { force: true });
    if (isAbandoned(path)) {
      rmSync(path, { force: true });
      const taken = create(path);
      // Another one may have found it abandoned at the same moment and removed ours: look again.
      sleep(100);
      if (taken && holder(path) === process.pid) return () => rmSync(path, { force: true });
    }
    if (!told) say('waiting for another lexpo process that installs or compiles …');
    told = true;
    sleep(200);
  }
}

function create(path) {
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Process id in the lock file; 0 while it is being written, undefined when it is gone. */
function holder(path) {
  try {
    return Number(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** Its process has ended without freeing it. A lock without a number is being written just now. */
function isAbandoned(path) {
  const pid = holder(path);
  if (pid === undefined) return false;
  if (pid === 0)
    return Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()) > 5000;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

const say = (text) => process.stderr.write(`lexpo: ${text}\n`);
const indent = (text) =>
  text
    .trim()
    .split('\n')
    .slice(-40)
    .map((line) => `    ${line}`)
    .join('\n');

if (process.argv[1] && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  try {
    ensureReady();
  } catch (error) {
    process.stderr.write(`lexpo: ${error.message}\n`);
    process.exit(1);
  }
}
