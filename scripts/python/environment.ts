/**
 * The Python that lexpo is compared with: the one that LEXPO_PYTHON names, else a virtual environment in
 * `.venv`, made on first use from requirements.txt (versions are pinned; several gigabytes where only the
 * CUDA build of PyTorch is to be had).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { UserError } from '../../src/base/errors.ts';

const VENV = fileURLToPath(new URL('../../.venv', import.meta.url));
const REQUIREMENTS = fileURLToPath(new URL('requirements.txt', import.meta.url));
/** Written when an installation has ended: the requirements that it met. */
const MARK = join(VENV, 'lexpo-requirements.txt');
const CPU_BUILDS = 'https://download.pytorch.org/whl/cpu';

const LOOK = `import json, sys
from importlib import metadata
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return None
print(json.dumps({name: version(name) for name in sys.argv[1:]}))`;

/** The interpreter, and the version of each package of requirements.txt there. */
export interface PythonEnvironment {
  python: string;
  versions: Record<string, string>;
}

/**
 * The interpreter to compare with, with all packages of requirements.txt; or why there is none.
 *
 * @throws UserError when LEXPO_PYTHON lacks a package, or the environment cannot be made.
 */
export function pythonEnvironment(log: (line: string) => void): PythonEnvironment | { skip: string } {
  const named = process.env.LEXPO_PYTHON;
  if (named) return look(named);
  const base = process.platform === 'win32' ? 'python' : 'python3';
  if (!existsSync(MARK) && spawnSync(base, ['--version']).status !== 0)
    return { skip: `no ${base} here; LEXPO_PYTHON names another` };
  if (!existsSync(MARK) || readFileSync(MARK, 'utf8') !== readFileSync(REQUIREMENTS, 'utf8'))
    install(base, log);
  return look(venvPython());
}

function venvPython(): string {
  return process.platform === 'win32' ? join(VENV, 'Scripts', 'python.exe') : join(VENV, 'bin', 'python');
}

/** Package versions as requirements.txt pins them. */
function pinned(): Map<string, string> {
  const lines = readFileSync(REQUIREMENTS, 'utf8').split('\n');
  const pairs = lines.map((line) => /^([\w-]+)==(\S+)$/.exec(line)).filter((match) => match !== null);
  return new Map(pairs.map(([, name, version]) => [name!, version!]));
}

function look(python: string): PythonEnvironment {
  const found = spawnSync(python, ['-c', LOOK, ...pinned().keys()], { encoding: 'utf8' });
  if (found.error || found.status !== 0)
    throw new UserError(
      `does not run: ${found.error?.message ?? found.stderr.trim()}`,
      python,
      'set LEXPO_PYTHON to a Python 3.10 or newer, or leave it unset',
    );
  const versions = JSON.parse(found.stdout) as Record<string, string | null>;
  const missing = Object.keys(versions).filter((name) => versions[name] === null);
  if (missing.length > 0)
    throw new UserError(
      `has no ${missing.join(', ')}`,
      python,
      `${python} -m pip install -r ${REQUIREMENTS}, or leave LEXPO_PYTHON unset`,
    );
  return { python, versions: versions as Record<string, string> };
}

function install(base: string, log: (line: string) => void): void {
  log('installing PyTorch, transformers, PEFT and TRL into .venv; this is done once and takes minutes …');
  run(base, ['-m', 'venv', VENV]);
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  // The build without CUDA is a tenth of the size; not every network reaches its index.
  const small = [...pip, '--timeout', '10', '--retries', '0', '--index-url', CPU_BUILDS];
  if (process.platform !== 'darwin')
    spawnSync(venvPython(), [...small, `torch==${pinned().get('torch')}`], { stdio: 'ignore' });
  run(venvPython(), [...pip, '-r', REQUIREMENTS]);
  writeFileSync(MARK, readFileSync(REQUIREMENTS));
}

function run(command: string, args: string[]): void {
  const { status, error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status === 0) return;
  const output = error?.message ?? `${stdout}${stderr}`.trim().split('\n').slice(-15).join('\n');
  throw new UserError(
    `${command} ${args.slice(0, 3).join(' ')} failed:\n${output}`,
    '.venv',
    'Python 3.10 or newer with venv, and a package index, are needed; or set LEXPO_PYTHON to a Python that has the packages',
  );
}
