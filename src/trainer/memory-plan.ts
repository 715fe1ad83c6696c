/** What a run is going to need of memory, told before it starts, and what it did need. */
import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { estimateMemory, type MemoryEstimate } from '../config/plan.ts';
import type { Config } from '../config/schema.ts';
import type { DecoderConfig } from '../engine/model-config.ts';
import { earlierPeak } from '../report/summary.ts';
import { short } from '../report/text.ts';
import type { Data } from './prepare.ts';

/** Characters of the corpus, titles included. */
export const corpusChars = ({ corpus }: Pick<Data, 'corpus'>): number =>
  corpus.articles.reduce((sum, { title, text }) => sum + title.length + text.length, 0);

export const planMemory = (config: Config, data: Data, decoder: DecoderConfig): MemoryEstimate =>
  estimateMemory(config, decoder, { corpusChars: corpusChars(data) });

/** `about 850 MB: weights …`, part by part. */
export function memoryText(estimate: MemoryEstimate): string {
  const { parameters, adapterParameters, weights, adapter, activations, serving, data, slack, total } =
    estimate;
  const parts = [
    `weights ${short(weights)}B (${short(parameters)} parameters)`,
    `adapter and optimiser ${short(adapter)}B (${short(adapterParameters)} parameters)`,
    `activations ${short(activations)}B`,
    `serving ${short(serving)}B`,
    `program and corpus ${short(data)}B`,
    `slack ${short(slack)}B`,
  ];
  return `about ${short(total)}B: ${parts.join(', ')}`;
}

/** One sentence when the estimate is more than the bytes that are free, else none. */
export function memoryWarnings({ total }: MemoryEstimate, free: number, kind: string): string[] {
  if (total <= free) return [];
  const lessTime = kind === 'torch' ? 'learner.gradientCheckpointing' : 'learner.memory.recompute';
  return [
    `about ${short(total)}B of memory are needed and ${short(free)}B are free: lower learner.tokensPerPass or ` +
      `learner.maxTreeTokens, or set ${lessTime}; the system may end the run without a word`,
  ];
}

/** Bytes that this process may still take: of its container where that is limited. */
export const freeMemory = (): number => process.availableMemory?.() ?? freemem();

/** Bytes that this process has held at most, all its threads together. */
export function peakMemory(): number {
  try {
    // getrusage, which `maxRSS` asks, starts on Linux from what the process that started this one held.
    const found = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
    if (found) return Number(found[1]) * 1024;
  } catch {
    // Another system: there the figure is this process' own.
  }
  return process.resourceUsage().maxRSS * 1024;
}

export interface HeldMemory {
  planned: number;
  peak: number;
}

/**
 * What a run that ends now was expected to hold and has held, in bytes. A resumed run keeps the figure of its
 * earlier summary where that is larger: a restart that finds nothing left to do holds next to nothing.
 */
export function heldMemory({ total }: MemoryEstimate, earlierSummary: string | null): HeldMemory {
  const earlier = earlierSummary === null ? 0 : earlierPeak(earlierSummary);
  return { planned: Math.round(total), peak: Math.max(peakMemory(), earlier) };
}

/** The two figures in a sentence. The processes of `torch` are expected with the rest, and not measured. */
export function heldText({ planned, peak }: HeldMemory, kind: string): string {
  return kind === 'torch'
    ? `peak memory ${short(peak)}B of this process alone; with those of the learner about ${short(planned)}B were expected`
    : `peak memory ${short(peak)}B, where about ${short(planned)}B were expected`;
}
