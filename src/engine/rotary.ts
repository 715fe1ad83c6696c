/**
 * Rotary position embedding (Su et al. 2021, arXiv 2104.09864): pair i of a head turns by position · frequency
 * i, where frequency i = θ^(−2i / d). Scalings change the frequencies once, so that a graph needs no more
 * than a table: whatever depends on the length of the sequence is refused (`dynamic`, `longrope`).
 */
import { z } from 'zod';

/** How the frequencies are changed for contexts longer than the first training's. */
export type RopeScaling =
  /** Every frequency divided by `factor` ≥ 1. */
  | { kind: 'linear'; factor: number }
  /** Llama 3.1: wavelengths above original / low are divided by `factor`, those below original / high are kept. */
  | {
      kind: 'llama3';
      factor: number;
      lowFreqFactor: number;
      highFreqFactor: number;
      originalPositions: number;
    }
  /** YaRN (Peng et al. 2023, arXiv 2309.00071): a ramp between the two, and larger tables. */
  | { kind: 'yarn'; factor: number; originalPositions: number; betaFast: number; betaSlow: number };

export interface Rope {
  theta: number;
  scaling: RopeScaling | null;
}

const count = z.number().int().positive();
const factor = z.number().min(1);
// strict: another key would change the computation (attention_factor, mscale, mrope_section, ...)
const base = z.strictObject({
  rope_type: z.string().optional(),
  type: z.string().optional(),
  rope_theta: z.number().positive().nullish(),
  partial_rotary_factor: z.literal(1).nullish(),
});
const KINDS = {
  default: base.transform((): RopeScaling | null => null),
  linear: base.extend({ factor }).transform((r): RopeScaling => ({ kind: 'linear', factor: r.factor })),
  llama3: base
    .extend({
      factor,
      low_freq_factor: z.number().positive(),
      high_freq_factor: z.number().positive(),
      original_max_position_embeddings: count,
    })
    .refine((r) => r.high_freq_factor > r.low_freq_factor, {
      error: 'not above low_freq_factor',
      path: ['high_freq_factor'],
    })
    .transform(
      (r): RopeScaling => ({
        kind: 'llama3',
        factor: r.factor,
        lowFreqFactor: r.low_freq_factor,
        highFreqFactor: r.high_freq_factor,
        originalPositions: r.original_max_position_embeddings,
      }),
    ),
  yarn: base
    .extend({
      factor,
      original_max_position_embeddings: count,
      beta_fast: z.number().positive().default(32),
      beta_slow: z.number().positive().default(1),
    })
    .transform(
      (r): RopeScaling => ({
        kind: 'yarn',
        factor: r.factor,
        originalPositions: r.original_max_position_embeddings,
        betaFast: r.beta_fast,
        betaSlow: r.beta_slow,
      }),
    ),
};

type Parsed = { scaling: RopeScaling | null; theta: number | null } | { refused: string };

/**
 * Reads `rope_parameters` (transformers 5) or `rope_scaling` (before it), called `field` in messages; null and
 * absent are plain. What cannot be computed, or is computed differently by transformers and vLLM, is `refused`
 * with a sentence that names it: `dynamic` (vLLM scales at every length, transformers beyond the context),
 * `longrope`, multimodal sections, YaRN's `attention_factor`, `mscale` and `truncate`.
 */
export function parseRope(value: unknown, field: string): Parsed {
  if (value === null || value === undefined) return { scaling: null, theta: null };
  const named = z
    .looseObject({
      rope_type: z.string().optional(),
      type: z.string().optional(),
      rope_theta: z.number().nullish(),
    })
    .safeParse(value);
  if (!named.success) return { refused: `${field} that is no object of numbers and names` };
  const { rope_type, type } = named.data;
  if (rope_type !== undefined && type !== undefined && rope_type !== type)
    return { refused: `${field} of rope_type ${rope_type} and type ${type}` };
  // rope_scaling without a type has a kind of its own in old files; rope_parameters without one is plain
  const kind = rope_type ?? type ?? (field === 'rope_parameters' ? 'default' : undefined);
  if (kind === undefined) return { refused: `${field} without a type` };
  if (!Object.hasOwn(KINDS, kind))
    return { refused: `${field} of type ${kind} (supported: ${Object.keys(KINDS).join(', ')})` };
  const parsed = KINDS[kind as keyof typeof KINDS].safeParse(value);
  if (parsed.success) return { scaling: parsed.data, theta: named.data.rope_theta ?? null };
  const [issue] = parsed.error.issues;
  const names = issue?.code === 'unrecognized_keys' ? issue.keys : [issue?.path.join('.')];
  const why = issue?.code === 'unrecognized_keys' ? 'not supported' : issue?.message;
  return { refused: `${names.map((name) => `${field}.${name}`).join(', ')} with type ${kind} (${why})` };
}

const f = Math.fround;

/** Pairs whose wavelength is below `low` pass whole, those above `high` not at all; a ramp between. Of d / 2. */
function yarnKept(headDim: number, theta: number, yarn: RopeScaling & { kind: 'yarn' }) {
  // the (fractional) pair that turns `rotations` times within the original context
  const pairOf = (rotations: number): number =>
    (headDim * Math.log(yarn.originalPositions / (rotations * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(Math.floor(pairOf(yarn.betaFast)), 0);
  const high = Math.min(Math.ceil(pairOf(yarn.betaSlow)), headDim - 1);
  const width = high === low ? 0.001 : high - low;
  return (i: number): number => f(1 - Math.min(1, Math.max(0, f(f(i - low) / f(width)))));
}

/**
 * The frequencies `[headDim / 2]`, radians a position, and what the tables of cosines and sines are multiplied
 * by. In f32 step by step, as PyTorch computes them.
 */
export function rotaryFrequencies(
  headDim: number,
  { theta, scaling }: Rope,
): { frequencies: number[]; magnitude: number } {
  const plain = Array.from({ length: headDim / 2 }, (_, i) => f(1 / f(theta ** f((2 * i) / headDim))));
  switch (scaling?.kind) {
    case undefined:
      return { frequencies: plain, magnitude: 1 };
    case 'linear':
      return { frequencies: plain.map((x) => f(x / scaling.factor)), magnitude: 1 };
    case 'llama3': {
      const { factor, lowFreqFactor: low, highFreqFactor: high, originalPositions: original } = scaling;
      const frequencies = plain.map((x) => {
        const wavelength = f((2 * Math.PI) / x);
        if (wavelength > original / low) return f(x / factor);
        if (wavelength < original / high) return x;
        const kept = f(f(f(original / wavelength) - low) / (high - low));
        return f(f(f(f(1 - kept) * x) / factor) + f(kept * x));
      });
      return { frequencies, magnitude: 1 };
    }
    case 'yarn': {
      const kept = yarnKept(headDim, theta, scaling);
      const frequencies = plain.map((x, i) => {
        const stretched = f(1 / f(scaling.factor * f(theta ** f((2 * i) / headDim))));
        return f(f(stretched * f(1 - kept(i))) + f(x * kept(i)));
      });
      return { frequencies, magnitude: 0.1 * Math.log(scaling.factor) + 1 };
    }
  }
}
