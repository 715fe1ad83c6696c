/** The sections `log` and `monitor`: what operators read of a trainer and its workers. They change nothing of a run. */
import { z } from 'zod';
import { count, filled } from './fields.ts';

export const log = z.strictObject({
  /** `json`: one JSON object a line. */
  format: z.enum(['text', 'json']).default('text'),
  /** JSON lines are appended here too, whatever the format of the screen. */
  file: filled.optional(),
});

const port = z.number().int().min(0).max(65_535);

export const monitor = z.strictObject({
  /** Of the trainer's `/metrics` and `/health`; 0: any free one. Left out: none is opened. */
  port: port.optional(),
  /** Of a worker's; each worker of a machine wants its own: `--set monitor.workerPort=9465`. */
  workerPort: port.optional(),
  host: filled.default('127.0.0.1'),
  /** Without a step, or as a worker without Redis, for so long `/health` answers 503. */
  stallMs: count.max(86_400_000).default(1_800_000),
});
