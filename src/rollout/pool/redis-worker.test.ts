import { expect, it } from 'vitest';
import { backoff } from './redis-worker.ts';

it('doubles the pause before each attempt, up to half a minute, spread by half and the same for the same job', () => {
  for (let made = 1; made <= 200; made++) {
    const whole = Math.min(30_000, 100 * 2 ** (made - 1));
    const pause = backoff(100, made, 'job');
    expect(pause).toBeGreaterThanOrEqual(whole / 2);
    expect(pause).toBeLessThanOrEqual(whole);
    expect(backoff(100, made, 'job')).toBe(pause);
  }
  const pauses = Array.from({ length: 50 }, (_, i) => backoff(10_000, 1, `job-${i}`));
  expect(new Set(pauses).size).toBeGreaterThan(40);
});
