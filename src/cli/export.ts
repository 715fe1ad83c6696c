/** `lexpo export`: an adapter, or the merged model, with its model card. */
import { UserError } from '../base/errors.ts';
import { exportPolicy } from '../trainer/export/export-policy.ts';
import { interruptible } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface ExportCommandOptions {
  out: string;
  merged?: boolean;
  checkpoint?: string;
  base?: string;
  baseName?: string;
  force?: boolean;
}

/** Exports; gives the exit code. */
export async function exportCommand(
  target: string,
  options: ExportCommandOptions,
  streams: Streams,
): Promise<number> {
  const { out, merged = false, force = false, checkpoint, base, baseName } = options;
  if (baseName !== undefined && !/^[A-Za-z0-9][\w.-]*(?:\/[A-Za-z0-9][\w.-]*)?$/.test(baseName))
    throw new UserError(
      `${baseName} is not a name on the Hugging Face hub`,
      '--base-name',
      'give one such as Qwen/Qwen3-0.6B',
    );
  const log = (line: string): void => void streams.stderr.write(`${line}\n`);
  return interruptible(
    (name) => log(`${name}: stopping; nothing is written`),
    async (signal) => {
      const { adapter } = await exportPolicy({
        target,
        out,
        merged,
        force,
        checkpoint,
        base,
        baseName,
        signal,
        log,
      });
      streams.stdout.write(`${out}: ${adapter}${merged ? ', merged into its base model' : ''}\n`);
    },
  );
}
