import { describe, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { type Overrides, parseConfig } from './load.ts';

const GOOD = `run:
  name: demo
model:
  path: models/tiny
data:
  corpus: c.jsonl
  train: t.jsonl
  validation: v.jsonl
train:
  steps: 12
`;

function failure(text: string, overrides: Overrides = {}): string {
  try {
    parseConfig(text, 'x.yaml', overrides);
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as Error).message;
  }
  throw new Error('was accepted');
}

describe('rules across fields', () => {
  const RAW = 'endpoint={kind: vllm, replicas: [{url: "http://gpu:8000"}]}';
  const PROCESSED = RAW.replace('kind: vllm,', 'kind: vllm, logprobs: processed,');
  const rules: [name: string, set: string[], path: string, wrong: RegExp][] = [
    [
      'minGroup',
      ['rollout.groupSize=3', 'rollout.minGroup=4'],
      'rollout.minGroup',
      /at most rollout.groupSize \(3\)/,
    ],
    ['keep', ['retrieval.topK=5', 'retrieval.keep=6'], 'retrieval.keep', /at most retrieval.topK \(5\)/],
    ['eval.k', ['env.poolLimit=9'], 'eval.k', /at most env.poolLimit \(9\)/],
    ['recallAt', ['reward.recallAt=21'], 'reward.recallAt', /at most env.poolLimit \(20\)/],
    [
      'tokensPerPass',
      ['learner.tokensPerPass=1000'],
      'learner.tokensPerPass',
      /at least learner.maxTreeTokens \(1024\)/,
    ],
    [
      'planner tokens',
      ['rollout.maxTokens.planner=1024'],
      'rollout.maxTokens.planner',
      /below learner.maxTreeTokens/,
    ],
    [
      'rewriter tokens',
      ['rollout.maxTokens.rewriter=1024'],
      'rollout.maxTokens.rewriter',
      /below learner.maxTreeTokens/,
    ],
    ['eval.metric', ['eval.metric=answerAccuracy'], 'eval.metric', /only the Lawyer/],
    [
      'promote.metric',
      ['retrain={inbox: i, registry: r, promote: {metric: evidenceRecall}}'],
      'retrain.promote.metric',
      /only the Lawyer/,
    ],
    ['anchor', ['retrieval.anchor={original: 0, rewrite: 0}'], 'retrieval.anchor', /must not both be 0/],
    [
      'gspo',
      ['loss.kind=gspo', 'loss.importance.level=token'],
      'loss.importance.level',
      /must be sequence with loss.kind gspo/,
    ],
    [
      'topP, raw',
      [RAW, 'rollout.topP=0.95', 'loss.importance.level=token'],
      'rollout.topP',
      /must be 1 with loss.importance.mode mask while endpoint.logprobs is raw/,
    ],
    [
      'topK, raw',
      [RAW, 'rollout.topK=20', 'loss.importance.mode=truncate'],
      'rollout.topK',
      /must be 0 with loss.importance.mode truncate while endpoint.logprobs is raw/,
    ],
    [
      'topP over a sample, processed',
      [PROCESSED, 'rollout.topP=0.95'],
      'loss.importance.level',
      /must be token with rollout.topP, or/,
    ],
    [
      'both over a sample, embedded',
      ['rollout.topP=0.95', 'rollout.topK=9'],
      'loss.importance.level',
      /must be token with rollout.topP and rollout.topK, or/,
    ],
    [
      'two names of one Redis',
      ['pool={redis: {url: "redis://a", urlEnv: REDIS}}'],
      'pool.redis.urlEnv',
      /must be left out where pool.redis.url is given/,
    ],
    [
      'two names of one Redis, of schedules',
      ['retrain={inbox: i, registry: r, redis: {url: "redis://a", urlEnv: REDIS}}'],
      'retrain.redis.urlEnv',
      /must be left out where retrain.redis.url is given/,
    ],
    [
      'older samples without correction',
      ['train.maxStaleness=1', 'loss.importance.mode=none'],
      'loss.importance.mode',
      /must be mask or truncate with train.maxStaleness above 0/,
    ],
    [
      'one server twice',
      ['endpoint={kind: vllm, replicas: [{url: "http://gpu:8000"}, {url: "http://gpu:8000/v1/"}]}'],
      'endpoint.replicas',
      /must be different servers/,
    ],
    [
      'a job that outlasts its group',
      ['pool={jobDeadlineMs: 3000, groupDeadlineMs: 2000}'],
      'pool.jobDeadlineMs',
      /at most pool.groupDeadlineMs \(2000\)/,
    ],
    ['data', ['data.validation=t.jsonl'], 'data.validation', /another file than data.train/],
    ['sft.share', ['sft.share=0'], 'sft.share', /above 0/],
    ['reward.step', ['reward.step=0.05'], 'reward.step', /at most 0/],
    ['reward.invalid', ['reward.invalid=5'], 'reward.invalid', /at most 0/],
  ];
  for (const [name, set, path, wrong] of rules) {
    test(`${name} is refused, beside another mistake too`, () => {
      const alone = failure(GOOD, { set });
      expect(alone).toContain('1 mistake in');
      expect(alone).toContain(`${path}: `);
      expect(alone).toMatch(wrong);
      const beside = failure(GOOD.replace('steps: 12', 'steps: -1'), { set });
      expect(beside).toContain('2 mistakes in');
      expect(beside).toContain('train.steps: -1');
      expect(beside).toMatch(wrong);
    });
  }

  test('top-p and top-k are accepted where the ratio of a token is the true one, or none is formed', () => {
    const narrow = ['rollout.topP=0.95', 'rollout.topK=20'];
    for (const set of [
      ['loss.importance.level=token'],
      [PROCESSED, 'loss.importance.level=token', 'rollout.temperature=0.6'],
      ['loss.importance.mode=none'],
      [RAW, 'loss.importance.mode=none'],
    ])
      expect(() => parseConfig(GOOD, 'x.yaml', { set: [...narrow, ...set] })).not.toThrow();
    for (const set of [[RAW], ['rollout.topP=1', 'rollout.topK=0']])
      expect(() => parseConfig(GOOD, 'x.yaml', { set })).not.toThrow();
  });

  test.each([
    ['env.kind=mlar', 'env.kind'],
    ['env=3', 'env'],
    ['reward=3', 'reward'],
    ['rollout.groupSize=-8', 'rollout.groupSize'],
    ['retrieval.topK=-1', 'retrieval.topK'],
    ['learner.maxTreeTokens=0.5', 'learner.maxTreeTokens'],
    ['endpoint={kind: vllm, replicas: [{url: 3}]}', 'endpoint.replicas.0.url'],
  ])('a wrong value is one mistake, and nothing has to agree with it: %s', (set, path) => {
    const message = failure(GOOD, { set: [set] });
    expect(message).toContain('1 mistake in');
    expect(message).toContain(`${path}: `);
  });

  test('the limits themselves are accepted', () => {
    const set = [
      'rollout.minGroup=8',
      'retrieval.keep=30',
      'eval.k=20',
      'reward.recallAt=20',
      'reward.step=0',
      'loss.kind=gspo',
    ];
    expect(() => parseConfig(GOOD, 'x.yaml', { set })).not.toThrow();
  });
});
