import { describe, expect, it } from 'vitest';
import { parseConfig } from './load.ts';
import { estimateMemory } from './plan.ts';

const parse = (endpoint: string, more = '') =>
  parseConfig(
    `run: {name: a}\nmodel: {path: m}\ndata: {corpus: c, train: t, validation: v}\ntrain: {steps: 1}\nendpoint: ${endpoint}\n${more}`,
    'x.yaml',
    {},
  );
const vllm = (replicas: string, more = '') => `{kind: vllm, replicas: [${replicas}]${more}}`;

describe('the section endpoint', () => {
  it('is our own server when nothing is said, and has the defaults of servers that are there', () => {
    expect(parse('{}').endpoint).toEqual({ kind: 'embedded', threads: 2 });
    expect(parse(vllm('{url: "http://a:8000/v1"}')).endpoint).toEqual({
      kind: 'vllm',
      replicas: [{ url: 'http://a:8000/v1' }],
      logprobs: 'raw',
      onPartialFailure: 'keep-old',
      loadDeadlineMs: 120_000,
      healthEveryMs: 5_000,
    });
  });

  it.each([
    ['no server', vllm(''), '', /endpoint\.replicas: \[\] is not allowed/],
    ['an address without a scheme', vllm('{url: "a:8000"}'), '', /replicas\.0\.url/],
    ['a key in the address', vllm('{url: "http://u:k@a:8000"}'), '', /replicas\.0\.url.*apiKeyEnv/],
    ['a relative folder', vllm('{url: "http://a:1", adapterRoot: runs}'), '', /adapterRoot.*absolute/],
    ['a key for its name', vllm('{url: "http://a:1"}', ', apiKeyEnv: sk-1'), '', /apiKeyEnv.*not the key/],
    [
      'one server twice',
      vllm('{url: "http://a:1"}, {url: "http://a:1/v1/"}'),
      '',
      /endpoint\.replicas: .*twice/,
    ],
    [
      'threads of servers that are there',
      vllm('{url: "http://a:1"}', ', threads: 2'),
      '',
      /threads: only with endpoint\.kind embedded/,
    ],
    [
      'raw values at another temperature',
      vllm('{url: "http://a:1"}'),
      'rollout: {temperature: 0.7}',
      /endpoint\.logprobs: must be processed/,
    ],
  ])('refuses %s', (_, endpoint, more, message) => {
    expect(() => parse(endpoint, more)).toThrow(message);
    expect(() => parse(endpoint, more)).toThrow(/1 mistake/);
  });

  it('takes another temperature with processed values, and in our own server', () => {
    const hot = 'rollout: {temperature: 0.7}';
    expect(parse(vllm('{url: "http://a:1"}', ', logprobs: processed'), hot).rollout.temperature).toBe(0.7);
    expect(parse('{}', hot).rollout.temperature).toBe(0.7);
  });

  it('servers elsewhere take none of the memory here', () => {
    const decoder = {
      layers: 2,
      hiddenSize: 64,
      heads: 4,
      kvHeads: 2,
      headDim: 16,
      intermediateSize: 128,
      vocabSize: 1000,
      tieWordEmbeddings: true,
    } as Parameters<typeof estimateMemory>[1];
    const of = (endpoint: string) => estimateMemory(parse(endpoint), decoder, { corpusChars: 0 });
    const [own, there] = [of('{}'), of(vllm('{url: "http://a:1"}'))];
    expect(own.serving).toBeGreaterThan(0);
    expect(there.serving).toBe(0);
    // Two of four graphs are the server's.
    expect(there.weights).toBe(own.weights / 2);
  });
});
