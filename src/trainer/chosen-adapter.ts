/** Which adapter a finished run has chosen. */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../base/read-json.ts';

const summarySchema = z.looseObject({ adapter: z.string().min(1), steps: z.number() });

/**
 * The name of the adapter in the summary of the run in `root`; only the name, since the folder may have been moved. Null
 * where there is no summary, or one of an end that `train.steps` (now `steps`) has moved since: the run then goes on.
 *
 * @throws UserError for a summary that cannot be read.
 */
export function chosenAdapter(root: string, steps: number): string | null {
  const file = join(root, 'summary.json');
  if (!existsSync(file)) return null;
  const summary = readJsonFile(file, summarySchema, 'Say which adapter is meant, or put the file back.');
  return summary.steps < steps ? null : basename(summary.adapter);
}
