/**
 * `npm run bench:serve`: sampled tokens per second of the embedded server, 64 requests at a time by the openai
 * client, against transformers' `generate` at the best of several batch sizes, and against vLLM's server where
 * LEXPO_VLLM names a Python that has it. docs/bench-serve.md tells what is compared. The last line is one JSON
 * object.
 *
 * Options: `--rounds N` (default 5), `--threads N` (default 2), `--model tiny|stard-small|random` (repeatable;
 * default: each that is there).
 *
 * All contestants draw in turn, round by round, and a ratio is the median of the rounds' ratios: a busy machine
 * slows all alike.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf, UserError } from '../src/base/errors.ts';
import { createEndpoint } from '../src/rollout/endpoint.ts';
import { startServer } from '../src/serve/server.ts';
import { findPython } from '../src/trainer/learner/test-support-python.ts';
import {
  CONCURRENT,
  clientOf,
  type Drawn,
  type Generate,
  SAMPLES,
  startGenerate,
  startVllm,
  type Vllm,
} from './bench-serve/contestants.ts';
import { type Contestant, cpuSpeed, figures, speed } from './bench-serve/report.ts';
import {
  promptsOf,
  randomModel,
  removeModel,
  type Subject,
  writeRandomAdapter,
} from './bench-serve/workload.ts';

/** Batches that `generate` is tried at. */
const BATCHES = [16, 32, 64, 128, 256];
const NAMES = ['tiny', 'stard-small', 'random'] as const;
const VLLM_PORT = 8931;

type Name = (typeof NAMES)[number];

function subjectOf(name: Name): Subject | null {
  if (name === 'random')
    return { name, folder: randomModel(), config: 'quickstart.yaml', prompts: 16, newTokens: 32 };
  const config = name === 'tiny' ? 'quickstart.yaml' : 'stard.yaml';
  const subject = { name, folder: `models/${name}`, config, prompts: 32, newTokens: 48 };
  const data = name === 'tiny' || existsSync('../shared/data/stard');
  return existsSync(join(subject.folder, 'config.json')) && data ? subject : null;
}

async function measure(subject: Subject, python: string | null, rounds: number, threads: number) {
  const work = { prompts: await promptsOf(subject), newTokens: subject.newTokens };
  const scratch = mkdtempSync(join(tmpdir(), 'lexpo-bench-serve-'));
  const adapters = join(scratch, 'adapters');
  const adapter = join(adapters, 'r8');
  mkdirSync(adapters);
  await writeRandomAdapter(subject.folder, adapter);
  const server = await startServer({ modelFolder: subject.folder, adapterRoot: adapters, threads });
  let generate: Generate | null = null;
  let vllm: Vllm | null = null;
  try {
    const endpoint = createEndpoint({ baseUrl: server.url, deadlineMs: 60_000, maxConcurrent: 1 });
    await endpoint.loadAdapter('r8', adapter);
    const contestants: Contestant[] = [];
    const add = (name: string, draw: () => Promise<Drawn>, batch: number | null = null): number =>
      contestants.push({ name, batch, draw, drawn: [] });
    add('lexpo', clientOf(`${server.url}/v1`, subject.folder, { ...work, inProcess: true }));
    add('lexpo, adapter', clientOf(`${server.url}/v1`, 'r8', { ...work, inProcess: true }));
    if (process.env.LEXPO_VLLM) {
      vllm = await startVllm(process.env.LEXPO_VLLM, subject.folder, threads, VLLM_PORT);
      add('vllm', clientOf(vllm.url, subject.folder, { ...work, inProcess: false }));
    }
    if (python) {
      generate = await startGenerate(python, { model: subject.folder, threads, ...work });
      for (const batch of await bestBatches(generate, work.prompts.length * SAMPLES))
        add(`generate, ${batch}`, () => generate!.draw(batch), batch);
    }
    for (let round = 0; round <= rounds; round++)
      for (const { draw, drawn } of contestants) {
        const now = await draw();
        // The first round warms up.
        if (round > 0) drawn.push(now);
      }
    tell(subject, work.prompts, contestants);
    return { ...figures(contestants), versions: { ...generate?.versions, vllm: vllm?.version ?? null } };
  } finally {
    generate?.close();
    vllm?.close();
    await server.close();
    rmSync(scratch, { recursive: true });
  }
}

/** The two batches at which `generate` is fastest, of two draws each. */
async function bestBatches(generate: Generate, samples: number): Promise<number[]> {
  const tried = BATCHES.filter((batch) => batch <= samples);
  const seconds = new Map(tried.map((batch) => [batch, Number.POSITIVE_INFINITY]));
  for (let turn = 0; turn < 2; turn++)
    for (const batch of tried)
      seconds.set(batch, Math.min(seconds.get(batch)!, (await generate.draw(batch)).seconds));
  return tried.sort((a, b) => seconds.get(a)! - seconds.get(b)!).slice(0, 2);
}

function tell(subject: Subject, prompts: number[][], contestants: Contestant[]): void {
  const lengths = prompts.map(({ length }) => length);
  console.log(
    `\n${subject.name}: ${prompts.length} prompts of ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens × ` +
      `${SAMPLES} samples × ${subject.newTokens} new tokens`,
  );
  for (const one of contestants) {
    const [wall, cpu] = [speed(one), cpuSpeed(one)].map(
      (value) => value?.toFixed(0).padStart(7) ?? '      –',
    );
    console.log(`  ${one.name.padEnd(14)} ${wall} tokens/s ${cpu} tokens per processor second`);
  }
}

function options() {
  try {
    return parseArgs({
      options: {
        rounds: { type: 'string', default: '5' },
        threads: { type: 'string', default: '2' },
        model: { type: 'string', multiple: true, default: [...NAMES] },
      },
    }).values;
  } catch (error) {
    throw new UserError(messageOf(error), 'bench:serve');
  }
}

async function bench(): Promise<void> {
  const values = options();
  const [rounds, threads] = [Number(values.rounds), Number(values.threads)];
  if (![rounds, threads].every((n) => Number.isInteger(n) && n > 0))
    throw new UserError('--rounds and --threads are positive whole numbers', 'bench:serve');
  const names = values.model as Name[];
  for (const name of names)
    if (!NAMES.includes(name)) throw new UserError(`--model is one of ${NAMES.join(', ')}`, 'bench:serve');
  process.chdir(fileURLToPath(new URL('..', import.meta.url)));
  const { python, skip } = findPython(['torch', 'transformers']);
  if (skip) console.log(`nothing to compare with: ${skip}`);
  const models: Record<string, Awaited<ReturnType<typeof measure>>> = {};
  for (const name of names) {
    const subject = subjectOf(name);
    if (!subject) {
      console.log(`\n${name}: left out, its model or its data is not here`);
      continue;
    }
    try {
      models[name] = await measure(subject, skip ? null : python, rounds, threads);
    } finally {
      if (name === 'random') removeModel(subject.folder);
    }
  }
  const onnxruntime = createRequire(import.meta.url)('onnxruntime-node/package.json').version as string;
  const setting = { concurrent: CONCURRENT, samples: SAMPLES, rounds, threads };
  console.log(JSON.stringify({ ...setting, models, versions: { node: process.version, onnxruntime } }));
}

try {
  await bench();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
