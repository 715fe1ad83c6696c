/** Runs a Python program to its end. */
import { spawnSync } from 'node:child_process';

/** What it wrote on stdout. Throws with the end of what it said otherwise when it fails. */
export function runPython(python: string, args: readonly string[]): string {
  const { status, signal, error, stdout, stderr } = spawnSync(python, args, {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    // Nothing is to be fetched: every model and tokenizer is a folder.
    env: { ...process.env, HF_HUB_OFFLINE: '1', TOKENIZERS_PARALLELISM: 'false' },
  });
  if (status === 0) return stdout;
  const said = (stderr ?? '').trim().split('\n').slice(-25).join('\n');
  throw new Error(`${args[0]} failed (${error?.message ?? signal ?? `code ${status}`})\n${said}`);
}
