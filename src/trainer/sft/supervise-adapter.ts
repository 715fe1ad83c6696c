/**
 * `lexpo sft`: an adapter from demonstrations alone. Causal loss on what the policy said; prompts, and with them
 * all evidence, carry none (Legal-R1 masks the retrieved evidence the same way). GRPO starts from the result by
 * `lora.start`, with a frozen copy of it as reference.
 */
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { UserError } from '../../base/errors.ts';
import { sha256OfFile } from '../../base/hash.ts';
import type { Config } from '../../config/schema.ts';
import { writeAdapter } from '../../engine/peft.ts';
import { weightsMark } from '../../engine/weights-mark.ts';
import type { Screen } from '../../report/progress.ts';
import { createLearner } from '../create-learner.ts';
import { createEnvironment } from '../environment.ts';
import { ensureModel, loadData } from '../prepare.ts';
import { loraSpec, startState } from '../start-run.ts';
import { runWarmStart, type SftConfig, type WarmStartFacts } from './run-warm-start.ts';

export interface SuperviseOptions {
  config: Config;
  /** Folder of the adapter; must not exist yet. */
  out: string;
  screen: Screen;
  signal: AbortSignal;
}

/** Beside the adapter's two files: what it was made from. */
const SFT_FACTS = 'sft.json';

/**
 * Trains and writes the folder, which appears when it is whole. UserError for a configuration without `sft`, and
 * for a folder that is there; `signal.reason` when the signal fires, with nothing written.
 */
export async function superviseAdapter({
  config,
  out,
  screen,
  signal,
}: SuperviseOptions): Promise<WarmStartFacts> {
  const { sft } = config;
  if (!sft)
    throw new UserError('is not set', 'sft', 'add the section sft, such as sft: { demonstrations: <file> }');
  if (existsSync(out)) throw new UserError('is there already', out, 'give another --out, or remove it');
  const data = await loadData(config);
  const model = await ensureModel(config, data, screen.print);
  const environment = createEnvironment(config, data, { say: screen.print });
  const learner = await createLearner(
    config.learner,
    {
      modelFolder: model.folder,
      spec: loraSpec(config),
      optimizer: config.optimizer,
      threads: config.learner.threads,
      start: startState(config, model.config),
    },
    screen.print,
  );
  try {
    const facts = await runWarmStart(sft, { config, data, model, environment, learner, screen, signal });
    const folder = resolve(out);
    await mkdir(dirname(folder), { recursive: true });
    const { adapter } = await learner.state();
    const about = await recordOf(sft, facts, config, weightsMark(model.folder));
    await writeAdapter(folder, adapter, {
      baseModel: config.model.path,
      beside: { [SFT_FACTS]: `${JSON.stringify(about, null, 2)}\n` },
    });
    return facts;
  } finally {
    await learner.close();
  }
}

async function recordOf(sft: SftConfig, facts: WarmStartFacts, config: Config, baseWeights: string) {
  const { demonstrations, ...settings } = sft;
  const source =
    demonstrations === undefined
      ? { teacher: "the environment's own, which knows the gold (stand-in)" }
      : { demonstrations, sha256: await sha256OfFile(demonstrations) };
  return {
    ...source,
    ...settings,
    ...facts,
    seed: config.run.seed,
    baseModel: config.model.path,
    baseWeights,
  };
}
