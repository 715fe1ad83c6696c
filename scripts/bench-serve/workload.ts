/**
 * What is asked of every contestant: the prompts of real planner and rewriter calls, 8 samples of each as a
 * group of rollouts asks for them, every sample of the same number of tokens.
 */
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stream } from '../../src/base/random.ts';
import { loadConfig } from '../../src/config/load.ts';
import { writeAdapter } from '../../src/engine/peft.ts';
import { randomAdapter, tinyModel } from '../../src/engine/test-support.ts';
import { createEnvironment } from '../../src/trainer/environment.ts';
import { loadData, loadModel } from '../../src/trainer/prepare.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TOKENIZER_FILES = ['tokenizer.json', 'tokenizer_config.json', 'generation_config.json'];

/** A model to measure: `config` names the run whose questions its prompts are made from. */
export interface Subject {
  name: string;
  folder: string;
  config: string;
  prompts: number;
  newTokens: number;
}

/** A model of 35 M random weights with the demo's tokenizer: too large for a step's fixed costs to matter. */
export function randomModel(): string {
  const tiny = join(ROOT, 'models/tiny');
  const folder = tinyModel({
    vocab: 8192,
    hidden: 512,
    layers: 8,
    heads: 8,
    kvHeads: 4,
    headDim: 64,
    ffn: 1536,
  });
  for (const name of TOKENIZER_FILES) copyFileSync(join(tiny, name), join(folder, name));
  const read = (at: string) => JSON.parse(readFileSync(join(at, 'config.json'), 'utf8')) as object;
  const { eos_token_id, pad_token_id } = read(tiny) as Record<string, unknown>;
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...read(folder), eos_token_id, pad_token_id }));
  return folder;
}

export const removeModel = (folder: string): void => rmSync(folder, { recursive: true, force: true });

/** An adapter of rank 8 on every projection, written to `folder`. */
export async function writeRandomAdapter(modelFolder: string, folder: string): Promise<void> {
  const targets = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
  const adapter = randomAdapter(modelFolder, { r: 8, alpha: 16, rslora: false, targets });
  await writeAdapter(folder, adapter, { baseModel: 'bench' });
}

/** Prompts of planner and rewriter calls, as the run's own environment makes them; shuffled by a fixed seed. */
export async function promptsOf({ folder, config: name, prompts, newTokens }: Subject): Promise<number[][]> {
  const config = loadConfig(join(ROOT, 'configs', name), { set: [] });
  const data = await loadData(config);
  const model = loadModel(folder);
  const random = stream(1, 'bench-serve');
  const questions = random.shuffle(data.train).slice(0, prompts);
  const environment = createEnvironment(config, data);
  const played = await Promise.all(
    questions.map((query) => environment.demonstrate(query, { rollout: 0, seed: 1, judged: false })),
  );
  const rendered = played.flatMap((one) => one.calls).map(({ messages }) => model.renderPrompt(messages));
  const fitting = rendered.filter((ids) => ids.length + newTokens <= model.config.maxPositions);
  const distinct = [...new Map(fitting.map((ids) => [ids.join(), ids])).values()];
  return random.shuffle(distinct).slice(0, prompts);
}
