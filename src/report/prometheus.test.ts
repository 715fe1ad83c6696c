import { describe, expect, it } from 'vitest';
import { SERIES } from './metrics.ts';
import { createHistogram, exposition, processFamilies, seriesFamilies, single } from './prometheus.ts';

describe('exposition', () => {
  it('writes HELP, TYPE and samples, escaped, and ends in a line feed', () => {
    const text = exposition([
      {
        name: 'a_total',
        help: 'one\\two\nthree',
        type: 'counter',
        samples: [{ labels: { why: 'say "no"\n\\', kind: 'x' }, value: 2 }, { value: Number.NaN }],
      },
      { name: 'empty', help: '', type: 'gauge', samples: [] },
      single('gauge', 'b', 'B.', 1e21),
    ]);
    expect(text).toBe(
      '# HELP a_total one\\\\two\\nthree\n# TYPE a_total counter\n' +
        'a_total{why="say \\"no\\"\\n\\\\",kind="x"} 2\na_total NaN\n' +
        '# HELP b B.\n# TYPE b gauge\nb 1e+21\n',
    );
  });
});

describe('a histogram', () => {
  it('counts at or below each end, cumulatively', () => {
    const histogram = createHistogram('h_seconds', 'H.', [0.1, 1]);
    for (const value of [0.1, 0.05, 0.5, 7]) histogram.observe(value);
    expect(exposition([histogram.family()]).split('\n').slice(2, -1)).toEqual([
      'h_seconds_bucket{le="0.1"} 2',
      'h_seconds_bucket{le="1"} 3',
      'h_seconds_bucket{le="+Inf"} 4',
      'h_seconds_sum 7.65',
      'h_seconds_count 4',
    ]);
  });
});

describe('series', () => {
  it('have legal names of their own, times in seconds, absent values left out', () => {
    const all = seriesFamilies(Object.fromEntries(SERIES.map((name) => [name, 1500])));
    expect(all).toHaveLength(SERIES.length);
    expect(new Set(all.map(({ name }) => name)).size).toBe(SERIES.length);
    for (const { name } of all) expect(name).toMatch(/^lexpo_[a-z0-9_]+$/);
    const learn = all.find(({ name }) => name === 'lexpo_time_learn_seconds')!;
    expect(learn.samples).toEqual([{ value: 1.5 }]);
    expect(all.map(({ name }) => name)).toContain('lexpo_policy_mismatch_k1');
    expect(seriesFamilies({ 'reward/mean': Number.NaN, 'eval/recall': null })).toEqual([]);
  });

  it('of the process are in seconds and bytes', () => {
    const families = processFamilies({
      rss: 5,
      heapUsed: 3,
      cpu: { user: 1_500_000, system: 500_000 },
      startedAt: 9,
    });
    expect(exposition(families)).toContain('\nprocess_cpu_seconds_total 2\n');
  });
});
