/** For tests with PyTorch: a Python that has it, or the reason to skip them, and the `torch` learner's settings. */
import { spawnSync } from 'node:child_process';
import type { TorchSettings } from './torch-launch.ts';

const PACKAGES = ['torch', 'transformers', 'safetensors'];
const LOOK = `import importlib.util, sys
print(" ".join(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))`;

/** LEXPO_PYTHON, else python3; `skip` says why neither will do. */
export function findPython(packages = PACKAGES): { python: string; skip: string | null } {
  const python = process.env.LEXPO_PYTHON ?? 'python3';
  const found = spawnSync(python, ['-c', LOOK, ...packages], { encoding: 'utf8' });
  if (found.error || found.status !== 0) return { python, skip: `no ${python}; LEXPO_PYTHON names another` };
  const missing = found.stdout.trim();
  return { python, skip: missing ? `${python} has no ${missing}; LEXPO_PYTHON names another` : null };
}

/** The `torch` learner on the CPU, for small batches: one process with one thread. */
export const torchOnCpu = (python: string, change: Partial<TorchSettings> = {}): TorchSettings => ({
  kind: 'torch',
  tokensPerPass: 4096,
  maxTreeTokens: 64,
  threads: 1,
  python,
  processes: 1,
  device: 'cpu',
  dtype: 'float32',
  gradientCheckpointing: false,
  startDeadlineMs: 120_000,
  callDeadlineMs: 60_000,
  ...change,
});
