/** `lexpo schedule`: retraining by the clock. */
import { UserError } from '../base/errors.ts';
import { loadConfig } from '../config/load.ts';
import { createScreen } from '../report/progress.ts';
import { formatTable } from '../report/tables.ts';
import { onInterrupt } from './interrupt.ts';
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
  const { redisAddress } = await import('../trainer/redis-address.ts');
  const { openRedis } = await import('../rollout/pool/redis-connection.ts');
  const schedules = await import('../trainer/retrain/schedule.ts');
  const screen = createScreen(streams.stdout, () => performance.now());
  const address = redisAddress(config.retrain, process.env, 'retrain.redis');
  const redis = await openRedis(address, { withinMs: CONNECT_MS, say: screen.print });
  const store = { redis, prefix: address.prefix };
  const { name } = config.run;
  try {
    if (options.cron !== undefined) {
      const next = await schedules.setSchedule(store, config, { cron: options.cron, tz: options.tz });
      screen.print(`${name}: "${options.cron}" (${options.tz}), next ${next.toISOString()}`);
      screen.print(`its jobs are done by: lexpo schedule ${file} --work`);
    } else if (options.list) {
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
    } else if (options.remove) {
      await schedules.removeSchedule(store, name);
      screen.print(`${name}: its schedule is removed; a job under way goes on`);
    } else if (options.now) {
      await schedules.runNow(store, config);
      screen.print(`${name}: a job is asked for; the next free worker does it`);
    } else return await work(store);
    return 0;
  } finally {
    redis.disconnect();
  }

  async function work(at: typeof store): Promise<number> {
    const { retrainTools } = await import('../trainer/retrain/tools.ts');
    const { recordLine } = await import('../trainer/retrain/history-text.ts');
    const interrupt = onInterrupt((signal) =>
      screen.print(`${signal}: leaving at the next whole point; once more ends at once`),
    );
    try {
      const tools = retrainTools(screen, () => new Date());
      screen.print('waits for jobs');
      await schedules.workSchedules({
        ...at,
        tools,
        signal: interrupt.signal,
        onEnd(end) {
          if (end.kind === 'ended') screen.print(recordLine(end.record));
        },
      });
      return interrupt.exitCode() ?? 0;
    } finally {
      interrupt.stop();
    }
  }
}
