/** `lexpo schedule`: retraining by the clock. */
import { UserError } from '../base/errors.ts';
import { loadConfig } from '../config/load.ts';
import { createScreen, type Screen } from '../report/progress.ts';
import { formatTable } from '../report/tables.ts';
import type { RetrainConfig } from '../trainer/retrain/run-config.ts';
import { onInterrupt } from './interrupt.ts';
import { openLog } from './log-output.ts';
import type { Streams } from './main.ts';

export interface ScheduleCliOptions {
  set: string[];
  cron?: string;
  tz: string;
  list?: boolean;
  remove?: boolean;
  now?: boolean;
  work?: boolean;
}

/** Of trying to reach Redis. */
const CONNECT_MS = 10_000;

/** Gives the exit code: 0, or 130 / 143 after a worker was interrupted. */
export async function schedule(file: string, options: ScheduleCliOptions, streams: Streams): Promise<number> {
  const asked = [options.cron, options.list, options.remove, options.now, options.work].filter(
    (option) => option !== undefined,
  );
  if (asked.length !== 1)
    throw new UserError(
      asked.length === 0 ? 'nothing was asked for' : 'one thing at a time',
      'lexpo schedule',
      'give one of --cron, --list, --remove, --now and --work',
    );
  const { withRetrain } = await import('../trainer/retrain/run-config.ts');
  const config = withRetrain(loadConfig(file, options));
  // Whoever looks at schedules reads text; the process that does the jobs has the log of its configuration.
  if (!options.work)
    return ask(
      config,
      file,
      options,
      createScreen(streams.stdout, () => performance.now()),
    );
  const to = { output: streams.stdout, errors: streams.stderr };
  const { screen, fail } = openLog(config, to, 'schedule');
  return work(config, screen).catch(fail);
}

async function ask(
  config: RetrainConfig,
  file: string,
  { cron, tz, list, remove }: ScheduleCliOptions,
  screen: Screen,
): Promise<number> {
  const schedules = await import('../trainer/retrain/schedule.ts');
  const { store, close } = await openStore(config, screen);
  const { name } = config.run;
  try {
    if (cron !== undefined) {
      const next = await schedules.setSchedule(store, config, { cron, tz });
      screen.print(`${name}: "${cron}" (${tz}), next ${next.toISOString()}`);
      screen.print(`its jobs are done by: lexpo schedule ${file} --work`);
    } else if (list) {
      const all = await schedules.listSchedules(store);
      const rows = all.map((one) => [
        one.name,
        one.cron,
        one.tz,
        one.next?.toISOString() ?? '',
        one.registry,
      ]);
      screen.print(
        all.length === 0
          ? 'no schedule'
          : formatTable(['schedule', 'pattern', 'time zone', 'next', 'registry'], rows),
      );
    } else if (remove) {
      await schedules.removeSchedule(store, name);
      screen.print(`${name}: its schedule is removed; a job under way goes on`);
    } else {
      await schedules.runNow(store, config);
      screen.print(`${name}: a job is asked for; the next free worker does it`);
    }
    return 0;
  } finally {
    close();
  }
}

async function work(config: RetrainConfig, screen: Screen): Promise<number> {
  const { workSchedules } = await import('../trainer/retrain/schedule.ts');
  const { retrainTools } = await import('../trainer/retrain/tools.ts');
  const { recordLine } = await import('../trainer/retrain/history-text.ts');
  const { store, close } = await openStore(config, screen);
  const interrupt = onInterrupt((signal) =>
    screen.print(`${signal}: leaving at the next whole point; once more ends at once`),
  );
  try {
    screen.print('waits for jobs');
    await workSchedules({
      ...store,
      tools: retrainTools(screen, () => new Date()),
      signal: interrupt.signal,
      onEnd(end) {
        if (end.kind === 'ended') screen.print(recordLine(end.record));
      },
    });
    return interrupt.exitCode() ?? 0;
  } finally {
    interrupt.stop();
    close();
  }
}

/** The Redis of the section `retrain`, where schedules are kept. */
async function openStore({ retrain }: RetrainConfig, screen: Screen) {
  const { redisAddress } = await import('../trainer/redis-address.ts');
  const { openRedis } = await import('../rollout/pool/redis-connection.ts');
  const address = redisAddress(retrain, process.env, 'retrain.redis');
  const redis = await openRedis(address, { withinMs: CONNECT_MS, say: screen.print });
  return { store: { redis, prefix: address.prefix }, close: () => redis.disconnect() };
}
