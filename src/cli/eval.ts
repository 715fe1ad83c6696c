/** `lexpo eval`: held-out figures as a table. */
import { createScreen } from '../report/progress.ts';
import { evaluationTable } from '../report/tables.ts';
import { evaluateAdapter } from '../trainer/inspect.ts';
import type { Streams } from './main.ts';
import { readTarget } from './target.ts';

export interface EvalOptions {
  set: string[];
  adapter?: string;
  baselines?: boolean;
}

export async function evaluate(target: string, options: EvalOptions, streams: Streams): Promise<void> {
  const { config, adapter } = await readTarget(target, options);
  const screen = createScreen(streams.stdout, () => performance.now());
  const baselines = options.baselines ?? false;
  const rows = await evaluateAdapter({ config, adapter, baselines, log: screen.print });
  screen.print(evaluationTable(config.eval.k, rows));
}
