import { describe, expect, it } from 'vitest';
import { differingFacts, factsMark, groupId, jobId, type RolloutJob } from './job.ts';

const job: RolloutJob = {
  run: 'demo',
  mark: 'm',
  step: 3,
  queryId: 'q:1',
  member: 2,
  attempt: 0,
  policy: { version: 2, model: 'demo-v2' },
  weights: 'w',
};

describe('jobId', () => {
  it('is the same for the same rollout, in the same form', () => {
    expect(jobId({ ...job })).toBe(jobId(job));
    expect(jobId(job)).toMatch(/^s3-m2-a0-[0-9a-f]{32}$/);
  });

  it('is another when anything of the rollout is another', () => {
    const others: RolloutJob[] = [
      { ...job, run: 'demo2' },
      { ...job, mark: 'n' },
      { ...job, step: 4 },
      { ...job, queryId: 'q' },
      { ...job, member: 3 },
      { ...job, attempt: 1 },
      { ...job, policy: { version: 3, model: 'demo-v2' } },
      { ...job, policy: { version: 2, model: 'demo-v2-r2' } },
      { ...job, weights: 'x' },
    ];
    expect(new Set([job, ...others].map(jobId)).size).toBe(others.length + 1);
  });

  it('is one that BullMQ takes, whatever the question is called', () => {
    for (const queryId of ['', '17', 'a:b', '问'.repeat(500)]) {
      const id = jobId({ ...job, queryId });
      expect(id).not.toMatch(/:|^\d+$/);
      expect(id.length).toBeLessThan(64);
    }
  });

  it('names the flows of a group apart by turn and members', () => {
    const jobs = [job, { ...job, member: 3 }];
    expect(new Set([groupId(jobs, 0), groupId(jobs, 1), groupId([job], 0)]).size).toBe(3);
    expect(groupId(jobs, 0)).not.toContain(':');
  });
});

describe('facts', () => {
  it('are told where they differ, with both values, and where one is missing', () => {
    expect(differingFacts({ a: '1', b: '2', c: '3' }, { a: '1', b: '4', d: '5' })).toEqual([
      'b: 2 at the trainer, 4 here',
      'c: 3 at the trainer, not set here',
      'd: not set at the trainer, 5 here',
    ]);
  });

  it('have one mark whatever their order', () => {
    expect(factsMark({ a: '1', b: '2' })).toBe(factsMark({ b: '2', a: '1' }));
    expect(factsMark({ a: '1', b: '2' })).not.toBe(factsMark({ a: '2', b: '1' }));
  });
});
