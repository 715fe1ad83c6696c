/** From what the contestants drew in every round to the figures that are told. */
import { median } from '../../src/base/statistics.ts';
import type { Drawn } from './contestants.ts';

export interface Contestant {
  name: string;
  /** Samples of one batch of `generate`; null for a server. */
  batch: number | null;
  draw(): Promise<Drawn>;
  /** One entry a round. */
  drawn: Drawn[];
}

/** Tokens per second, median of the rounds. */
export const speed = ({ drawn }: Pick<Contestant, 'drawn'>): number =>
  median(drawn.map(({ tokens, seconds }) => tokens / seconds));

/** Tokens per second of processor time, median of the rounds; null where it is not known. */
export function cpuSpeed({ drawn }: Pick<Contestant, 'drawn'>): number | null {
  const rates = drawn.map(({ tokens, cpuSeconds }) => (cpuSeconds === null ? null : tokens / cpuSeconds));
  return rates.includes(null) ? null : median(rates as number[]);
}

/**
 * How many times as fast `a` is as `b`: the median over rounds of the ratios within a round, so that what
 * slows a whole round does not count.
 */
export function ratio(a: Contestant, b: Contestant, of: (drawn: Drawn) => number | null): number | null {
  const ratios = a.drawn.map((drawn, i) => {
    const [over, to] = [of(drawn), of(b.drawn[i]!)];
    return over === null || to === null ? null : over / to;
  });
  return ratios.includes(null) ? null : Number(median(ratios as number[]).toFixed(3));
}

const perSecond = ({ tokens, seconds }: Drawn): number => tokens / seconds;
const perCpuSecond = ({ tokens, cpuSeconds }: Drawn): number | null =>
  cpuSeconds === null ? null : tokens / cpuSeconds;

/** The figures of one model: speeds in tokens per second, ratios of ours over theirs. */
export function figures(contestants: Contestant[]) {
  const named = (name: string) => contestants.find((one) => one.name === name) ?? null;
  const ours = named('lexpo')!;
  const adapter = named('lexpo, adapter')!;
  const vllm = named('vllm');
  const tried = contestants.filter(({ batch }) => batch !== null);
  const best = tried.sort((a, b) => speed(b) - speed(a))[0] ?? null;
  const rounded = (one: Contestant | null): number | null => one && Math.round(speed(one));
  return {
    lexpo: rounded(ours),
    lexpoAdapter: rounded(adapter),
    generate: rounded(best),
    generateBatch: best?.batch ?? null,
    vllm: rounded(vllm),
    ratioToGenerate: best && ratio(ours, best, perSecond),
    ratioToGenerateAdapter: best && ratio(adapter, best, perSecond),
    cpuRatioToGenerate: best && ratio(ours, best, perCpuSecond),
    cpuRatioToGenerateAdapter: best && ratio(adapter, best, perCpuSecond),
    ratioToVllm: vllm && ratio(ours, vllm, perSecond),
  };
}
