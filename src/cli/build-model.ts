/** `lexpo build-model`: makes the base model of a configuration. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../base/errors.ts';
import { loadConfig } from '../config/load.ts';
import { createScreen } from '../report/progress.ts';
import { ensureModel, loadData } from '../trainer/prepare.ts';
import type { Streams } from './main.ts';

export async function buildModel(file: string, options: { set: string[] }, streams: Streams): Promise<void> {
  const config = loadConfig(file, options);
  const { path, build } = config.model;
  const screen = createScreen(streams.stdout, () => performance.now());
  if (existsSync(join(path, 'config.json'))) {
    screen.print(`${path} is there already; remove the folder to make it anew`);
    return;
  }
  if (!build)
    throw new UserError(
      'has no section model.build',
      file,
      `give the folder of a model at ${path}, or add the section`,
    );
  await ensureModel(config, await loadData(config), screen.print);
  screen.print(`${path} is made`);
}
