/**
 * Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): families of samples, each
 * with HELP and TYPE. Base units: seconds and bytes; counters end in `_total`.
 */
import { SERIES } from './metrics.ts';

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  /** `_bucket`, `_sum` or `_count` of a histogram. */
  suffix?: string;
  labels?: Labels;
  value: number;
}

export interface Family {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  samples: Sample[];
}

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Families without a sample are left out. */
export function exposition(families: readonly Family[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${numberText(value)}`,
      );
      return [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');
    })
    .join('');
}

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return String(value);
}

/** `gauge` and `counter` with one sample. */
export const single = (type: 'gauge' | 'counter', name: string, help: string, value: number): Family => ({
  name,
  help,
  type,
  samples: [{ value }],
});

export interface Histogram {
  observe(value: number): void;
  family(): Family;
}

/** `bounds`: upper ends of the buckets, ascending; one without an end is added. */
export function createHistogram(name: string, help: string, bounds: readonly number[]): Histogram {
  const ends = [...bounds, Number.POSITIVE_INFINITY];
  const counts = ends.map(() => 0);
  let sum = 0;
  return {
    observe(value) {
      sum += value;
      counts[ends.findIndex((end) => value <= end)]!++;
    },
    family() {
      let below = 0;
      const buckets = ends.map((end, i) => {
        below += counts[i]!;
        return { suffix: '_bucket', labels: { le: numberText(end) }, value: below };
      });
      const totals = [
        { suffix: '_sum', value: sum },
        { suffix: '_count', value: below },
      ];
      return { name, help, type: 'histogram', samples: [...buckets, ...totals] };
    },
  };
}

/**
 * The series of `metrics.jsonl` as gauges: `reward/mean` is `lexpo_reward_mean`, `policy/mismatchK1` is
 * `lexpo_policy_mismatch_k1`; times are seconds: `time/learn` is `lexpo_time_learn_seconds`.
 */
export function seriesFamilies(values: Readonly<Record<string, number | null | undefined>>): Family[] {
  return SERIES.flatMap((series) => {
    const value = values[series];
    if (typeof value !== 'number' || !Number.isFinite(value)) return [];
    const time = series.startsWith('time/');
    const snake = series.replace('/', '_').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const help = `${series} of metrics.jsonl, newest value${time ? ', in seconds' : ''}`;
    return [single('gauge', `lexpo_${snake}${time ? '_seconds' : ''}`, help, time ? value / 1000 : value)];
  });
}

/** Memory and CPU of a process, by the names that every client library uses. `cpu`: microseconds. */
export function processFamilies(usage: {
  rss: number;
  heapUsed: number;
  cpu: { user: number; system: number };
  /** Seconds since 1970. */
  startedAt: number;
}): Family[] {
  const { rss, heapUsed, cpu, startedAt } = usage;
  return [
    single('gauge', 'process_resident_memory_bytes', 'Resident memory.', rss),
    single('gauge', 'nodejs_heap_size_used_bytes', 'JavaScript heap in use.', heapUsed),
    single(
      'counter',
      'process_cpu_seconds_total',
      'User and system CPU time.',
      (cpu.user + cpu.system) / 1e6,
    ),
    single('gauge', 'process_start_time_seconds', 'Start of the process, seconds since 1970.', startedAt),
  ];
}
