/** `lexpo retrain`: one retraining job now, its history, and the way back. */
import { hostname } from 'node:os';
import { UserError } from '../base/errors.ts';
import { loadConfig } from '../config/load.ts';
import { configWarnings } from '../config/plan.ts';
import type { RetrainConfig } from '../trainer/retrain/run-config.ts';
import type { Serving } from '../trainer/retrain/serving.ts';
import { onInterrupt } from './interrupt.ts';
import { openLog } from './log-output.ts';
import type { Streams } from './main.ts';

export interface RetrainCliOptions {
  set: string[];
  fresh?: boolean;
  history?: boolean;
  /** True without a name. */
  rollback?: string | true;
  serve?: boolean;
}

/** Has every server of `retrain.serve` serve the champion in use: after a server was started, or joined. */
async function serveCurrent(config: RetrainConfig, serving: Serving | null): Promise<void> {
  const { currentChampion, registryAt } = await import('../trainer/retrain/registry.ts');
  if (serving === null)
    throw new UserError('the section is missing', 'retrain.serve', 'name the replicas that answer users');
  const registry = registryAt(config.retrain.registry);
  const champion = currentChampion(registry);
  if (champion === null)
    throw new UserError('has no champion yet', registry.root, 'see lexpo retrain --history');
  await serving.serve(registry, champion, champion);
}

/** Gives the exit code: 0; 1 when another job was at work; 130 / 143 after an interruption. */
export async function retrainCommand(
  file: string,
  options: RetrainCliOptions,
  streams: Streams,
): Promise<number> {
  const { fullHash, withRetrain } = await import('../trainer/retrain/run-config.ts');
  const config = withRetrain(loadConfig(file, options));
  const { registry: folder } = config.retrain;
  const given = [options.fresh, options.history, options.rollback, options.serve].filter(Boolean);
  if (given.length > 1)
    throw new UserError(
      '--fresh, --history, --rollback and --serve exclude each other',
      file,
      'give one of them',
    );
  const { historyTable, recordLine } = await import('../trainer/retrain/history-text.ts');
  const { readHistory, registryAt } = await import('../trainer/retrain/registry.ts');
  const { championServing } = await import('../trainer/retrain/tools.ts');
  const say = (text: string): void => void streams.stdout.write(`${text}\n`);
  if (options.history) {
    streams.stdout.write(historyTable(readHistory(registryAt(folder))));
    return 0;
  }
  if (options.rollback) {
    const { rollBack } = await import('../trainer/retrain/rollback.ts');
    const to = options.rollback === true ? null : options.rollback;
    const about = { at: new Date(), host: hostname(), fullHash: fullHash(config) };
    const record = await rollBack(folder, to, about, championServing(config, say));
    say(recordLine(record));
    return 0;
  }
  if (options.serve) {
    await serveCurrent(config, championServing(config, say));
    return 0;
  }
  const to = { output: streams.stdout, errors: streams.stderr };
  const { screen, fail } = openLog(config, to, 'retrain');
  const interrupt = onInterrupt((name) =>
    screen.print(`${name}: stopping at the next whole point; once more ends at once`),
  );
  try {
    for (const warning of configWarnings(config)) screen.print(`note: ${warning}`);
    const { retrain } = await import('../trainer/retrain/retrain.ts');
    const { retrainTools } = await import('../trainer/retrain/tools.ts');
    const tools = retrainTools(screen, () => new Date());
    const { signal } = interrupt;
    const fresh = options.fresh ?? false;
    const end = await retrain({ config, trigger: 'hand', fresh, signal }, tools);
    if (end.kind === 'interrupted') {
      screen.print('stopped; the next job goes on with it');
      return interrupt.exitCode() ?? 1;
    }
    if (end.record.kind === 'skipped')
      throw new UserError(end.record.why, folder, 'wait for that job; the history says skipped');
    screen.print(recordLine(end.record));
    return 0;
  } catch (error) {
    return fail(error);
  } finally {
    interrupt.stop();
  }
}
