/**
 * `npm run bench:gpu`: the `torch` learner on one GPU, with a randomly initialised model of Qwen3-4B's shape,
 * LoRA r 16 on all seven projections, bfloat16, passes of 16,384 positions; the same samples packed as token
 * trees and one behind the other. Tokens per second, MFU and peak memory; the last line is one JSON object.
 * Without a GPU it says so. `--tiny` proves on any CPU that the program itself runs; `--profile` also shows
 * where the time goes. LEXPO_PYTHON names the Python.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stream } from '../src/base/random.ts';
import { findPython } from '../src/trainer/learner/test-support-python.ts';
import { TORCH_PROGRAM } from '../src/trainer/learner/torch-launch.ts';
import { encodeMessage, packBatch } from '../src/trainer/learner/wire.ts';
import { type Pass, packSamples, type Sample, tokensToRows } from '../src/trainer/token-tree.ts';
import { sideBySide } from './bench-learner/packings.ts';

/** A step's samples: rollouts of a question share their prompt, all questions share the instructions. */
interface Workload {
  questions: number;
  rollouts: number;
  instructions: number;
  question: number;
  /** Shortest and longest output. */
  output: [number, number];
  vocab: number;
  positions: number;
}
const FULL: Workload = {
  questions: 16,
  rollouts: 8,
  instructions: 400,
  question: 200,
  output: [60, 130],
  vocab: 151_936,
  positions: 16_384,
};
const TINY: Workload = {
  questions: 3,
  rollouts: 4,
  instructions: 20,
  question: 10,
  output: [4, 12],
  vocab: 512,
  positions: 256,
};

function samplesOf(load: Workload): Sample[] {
  const random = stream(1, 'bench-gpu');
  const ids = (n: number): number[] => Array.from({ length: n }, () => random.int(load.vocab));
  const instructions = ids(load.instructions);
  const [short, long] = load.output;
  return Array.from({ length: load.questions }, () => {
    const promptIds = [...instructions, ...ids(load.question)];
    return Array.from({ length: load.rollouts }, () => ({
      promptIds,
      outputIds: ids(short + random.int(long - short + 1)),
    }));
  }).flat();
}

/** Each sample a tree of its own, as many behind each other as a pass holds. */
function plainPasses(samples: readonly Sample[], positions: number): Pass[] {
  const passes: Pass[] = [];
  let held: Pass[] = [];
  let used = 0;
  let token = 0;
  const end = (): void => {
    if (held.length > 0) passes.push(sideBySide(held, Math.max(...held.map(({ batch }) => batch.length))));
    [held, used] = [[], 0];
  };
  for (const sample of samples) {
    const size = sample.promptIds.length + sample.outputIds.length - 1;
    if (used + size > positions) end();
    const [pass] = packSamples([sample], { maxTreeTokens: size, tokensPerPass: size }).passes;
    held.push({ ...pass!, token: pass!.token.map((t) => t + token) });
    token += sample.outputIds.length;
    used += size;
  }
  end();
  return passes;
}

function writePasses(folder: string, passes: readonly Pass[], coef: Float32Array): void {
  mkdirSync(folder);
  for (const [i, pass] of passes.entries()) {
    const rows = tokensToRows(pass, coef);
    const coefs = { coef: rows, entropyCoef: new Float32Array(rows.length).fill(1e-4) };
    const message = { kind: 'accumulate', ...packBatch(pass.batch, coefs) };
    writeFileSync(join(folder, String(i).padStart(3, '0')), Buffer.concat(encodeMessage(message)));
  }
}

interface Result {
  packing: string;
  gradientCheckpointing: boolean;
  outOfMemory?: string;
  seconds?: number;
  tokensPerSecond?: number;
  mfu?: number | null;
  gradNorm?: number;
  peakMemoryGB?: number | null;
}
type Output = { skipped: string } | { results: Result[] };

function measure(python: string, tiny: boolean, profile: boolean): Record<string, unknown> {
  const load = tiny ? TINY : FULL;
  const samples = samplesOf(load);
  const packed = packSamples(samples, { maxTreeTokens: load.positions, tokensPerPass: load.positions });
  const tokens = packed.offsets.at(-1)!;
  const random = stream(1, 'bench-gpu', 'coef');
  const coef = Float32Array.from({ length: tokens }, () => random.normal() / tokens);
  const folder = mkdtempSync(join(tmpdir(), 'lexpo-bench-'));
  try {
    writePasses(join(folder, 'tree'), packed.passes, coef);
    writePasses(join(folder, 'plain'), plainPasses(samples, load.positions), coef);
    const program = fileURLToPath(new URL('./bench-gpu.py', import.meta.url));
    const args = [
      program,
      TORCH_PROGRAM,
      folder,
      ...(tiny ? ['--tiny'] : []),
      ...(profile ? ['--profile'] : []),
    ];
    const run = spawnSync(python, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    if (run.status !== 0) throw new Error(`${python} ${program} ended with ${run.status ?? run.signal}`);
    const output = JSON.parse(run.stdout.trim().split('\n').at(-1)!) as Output;
    if ('skipped' in output) return output;
    const { tokensBefore, tokensAfter } = packed;
    const best = (packing: string): number | undefined =>
      output.results
        .flatMap((r) => (r.packing === packing && r.seconds ? [r.seconds] : []))
        .sort((a, b) => a - b)[0];
    const norms = output.results.flatMap(({ gradNorm }) => gradNorm ?? []);
    const [tree, plain] = [best('tree'), best('plain')];
    return {
      ...output,
      tokensBefore,
      tokensAfter,
      /** The same gradient, however it was packed: 1e-6 in float32, a few percent in bfloat16. */
      gradNormGap: Math.max(...norms) / Math.min(...norms) - 1,
      ratioToPlain: tree && plain ? tree / plain : null,
      sampleTokensPerSecond: tree ? tokensBefore / tree : null,
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function table(results: readonly Result[]): string {
  const percent = (x: number | null | undefined) => (x == null ? '-' : `${(100 * x).toFixed(1)} %`);
  return results
    .map((r) =>
      [
        r.packing.padEnd(6),
        (r.gradientCheckpointing ? 'checkpointing' : 'all kept').padEnd(14),
        r.outOfMemory ??
          `${r.seconds!.toFixed(3)} s  ${Math.round(r.tokensPerSecond!)} positions/s  MFU ${percent(r.mfu)}  peak ${r.peakMemoryGB?.toFixed(1) ?? '-'} GB`,
      ].join(' '),
    )
    .join('\n');
}

const flags = process.argv.slice(2);
const unknown = flags.filter((flag) => flag !== '--tiny' && flag !== '--profile');
if (unknown.length > 0) {
  process.stderr.write(`bench:gpu: unknown ${unknown.join(' ')}; it takes --tiny and --profile\n`);
  process.exit(1);
}
const { python, skip } = findPython();
const result: Record<string, unknown> = skip
  ? { skipped: skip }
  : measure(python, flags.includes('--tiny'), flags.includes('--profile'));
if ('skipped' in result) console.log(`bench:gpu: skipped: ${result.skipped}`);
else console.log(table(result.results as Result[]));
console.log(JSON.stringify(result));
