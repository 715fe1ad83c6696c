/** Finds a Python for tests that compare with PyTorch; they are skipped, with the reason, where there is none. */
import { spawnSync } from 'node:child_process';

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
