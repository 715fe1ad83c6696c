/** The tools of a retraining job as they are outside of tests: a training run, and the policy service. */
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { isTemporary } from '../../base/atomic-write.ts';
import { readJsonFile } from '../../base/read-json.ts';
import type { Screen } from '../../report/progress.ts';
import { evaluateHeldOut } from '../inspect.ts';
import { championServers } from '../policy-service.ts';
import { runTraining } from '../run.ts';
import { runFolder } from '../run-folder.ts';
import type { RetrainConfig } from './run-config.ts';
import { type Serving, servingOf } from './serving.ts';
import type { RetrainTools } from './work.ts';

const summarySchema = z.looseObject({ adapter: z.string().min(1) });

/** What a job works with, telling what it does on `screen`. `now` is the time of day. */
export function retrainTools(screen: Screen, now: () => Date): RetrainTools {
  return {
    async train(config, signal) {
      const { root, config: started, summary, adapters } = runFolder(config);
      if (!existsSync(summary)) {
        // Nobody else comes here: the registry's lock holds for its runs too.
        await removeTemporary(root);
        const resume = existsSync(started);
        const end = await runTraining({ config, resume, signal, screen, begin() {} });
        if (end === 'interrupted') return null;
      }
      const { adapter } = readJsonFile(summary, summarySchema, 'give the job up: lexpo retrain --fresh');
      // The run folder may have been moved since: only the name counts.
      return join(adapters, basename(adapter));
    },
    async evaluate(config, adapter) {
      return evaluateHeldOut({ config, adapter, log: screen.print });
    },
    serving: (config) => championServing(config, screen.print),
    now,
    host: hostname(),
    log: screen.print,
  };
}

/** The servers of `retrain.serve`; null without that section. UserError where their key is not set. */
export function championServing(config: RetrainConfig, say: (line: string) => void): Serving | null {
  const { serve } = config.retrain;
  return serve ? servingOf(championServers(config, serve), say) : null;
}

/** Removes what a killed process had half written into a run folder. */
async function removeTemporary(root: string): Promise<void> {
  if (!existsSync(root)) return;
  const names = await readdir(root, { recursive: true });
  for (const name of names.filter((path) => isTemporary(basename(path))))
    await rm(join(root, name), { recursive: true, force: true });
}
