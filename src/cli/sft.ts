/** `lexpo sft`: an adapter from demonstrations, for GRPO to start from. */
import { loadConfig } from '../config/load.ts';
import { createScreen } from '../report/progress.ts';
import { superviseAdapter } from '../trainer/sft/supervise-adapter.ts';
import { interruptible } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface SftCommandOptions {
  set: string[];
  seed?: number;
  out: string;
  demonstrations?: string;
}

/** Trains; gives the exit code. */
export async function sftCommand(
  file: string,
  options: SftCommandOptions,
  streams: Streams,
): Promise<number> {
  const { out, demonstrations } = options;
  const given = demonstrations === undefined ? [] : [`sft.demonstrations=${JSON.stringify(demonstrations)}`];
  const config = loadConfig(file, { ...options, set: [...options.set, ...given] });
  const screen = createScreen(streams.stdout, () => performance.now());
  const onFirst = (name: string): void => screen.print(`${name}: stopping; nothing is written`);
  return interruptible(onFirst, async (signal) => {
    await superviseAdapter({ config, out, screen, signal });
    screen.print(`the adapter is in ${out}; GRPO starts from it with --set sft=null --set lora.start=${out}`);
  });
}
