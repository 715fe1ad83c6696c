import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { readDecoderConfig } from '../engine/model-config.ts';
import { readSafetensors } from '../engine/safetensors.ts';
import type { Article } from '../env/types.ts';
import { loadTokenizer } from '../rollout/tokenizer.ts';
import { type BuildBaseModelOptions, buildBaseModel } from './build-base-model.ts';

const articles: Article[] = [
  { id: 'rent', law: '民法典', title: '民法典一', text: '承租人拖欠租金的，出租人可以请求解除租赁合同。' },
  {
    id: 'repair',
    law: '民法典',
    title: '民法典二',
    text: '租赁物需要维修，出租人拒绝维修，承租人可以减少租金。',
  },
  {
    id: 'wage',
    law: '劳动合同法',
    title: '劳动合同法一',
    text: '用人单位拖欠劳动报酬，劳动者可以请求支付令。',
  },
];
const root = temporaryFolder();

async function build(name: string, change: Partial<BuildBaseModelOptions> = {}): Promise<string[]> {
  const lines: string[] = [];
  await buildBaseModel({
    articles,
    queries: [{ id: 'q', query: '咋要回工钱', gold: ['wage'] }],
    folder: join(root, name),
    size: 'tiny',
    tokens: 0,
    threads: 1,
    seed: 1,
    lawyer: null,
    log: (line) => lines.push(line),
    ...change,
  });
  return lines;
}
const bytes = (name: string) => readFileSync(join(root, name, 'model.safetensors'));

describe('buildBaseModel', () => {
  beforeAll(() => build('tiny'));

  it('writes a Qwen3 folder whose parts agree', () => {
    const folder = join(root, 'tiny');
    expect(readdirSync(folder).sort()).toEqual([
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    const config = readDecoderConfig(folder);
    const tokenizer = loadTokenizer(folder);
    expect(config).toMatchObject({ hiddenSize: 128, layers: 4, heads: 4, kvHeads: 2, headDim: 32 });
    expect(config.vocabSize).toBe(tokenizer.vocabSize);
    expect(config.eosTokenIds).toEqual([tokenizer.tokenId('<|end|>')]);
    // A question's rare character is in the vocabulary: one token, not three bytes.
    expect(tokenizer.encode('咋')).toHaveLength(1);
  });

  it('starts from norms of 1 and normal weights, smaller where they feed the residual stream', () => {
    const { tensors } = readSafetensors(join(root, 'tiny', 'model.safetensors'));
    const { vocabSize } = readDecoderConfig(join(root, 'tiny'));
    // Per layer: q and o 128², k and v 64 × 128, gate, up and down 128 × 384, norms 2 × 128 + 2 × 32.
    const layer = 2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 384 + 2 * 128 + 2 * 32;
    const size = [...tensors.values()].reduce((sum, { data }) => sum + data.length, 0);
    expect(size).toBe(vocabSize * 128 + 4 * layer + 128);
    const deviation = (name: string) => {
      const { data } = tensors.get(name)!;
      return Math.sqrt(data.reduce((sum, x) => sum + x * x, 0) / data.length);
    };
    expect(deviation('model.layers.3.mlp.up_proj.weight')).toBeCloseTo(0.02, 3);
    expect(deviation('model.layers.3.mlp.down_proj.weight')).toBeCloseTo(0.02 / Math.sqrt(8), 3);
    expect([...tensors.get('model.norm.weight')!.data]).toEqual(Array(128).fill(1));
    expect([...tensors.get('model.layers.0.self_attn.q_norm.weight')!.data]).toEqual(Array(32).fill(1));
  });

  it('learns, and the same seed gives the same bytes', async () => {
    const training = { tokens: 6000, tokensPerStep: 500, learningRate: 3e-3 };
    const lines = await build('a', training);
    await build('b', training);
    expect(bytes('b').equals(bytes('a'))).toBe(true);
    expect(bytes('a').equals(bytes('tiny'))).toBe(false);
    const loss = Number(/loss ([\d.]+)/.exec(lines.at(-1)!)![1]);
    const { vocabSize } = readDecoderConfig(join(root, 'a'));
    expect(loss).toBeLessThan(Math.log(vocabSize));
  }, 60_000);

  it('draws other weights from another seed', async () => {
    await build('other', { seed: 2 });
    expect(bytes('other').equals(bytes('tiny'))).toBe(false);
  });

  it('refuses a folder that exists, and leaves none behind when it fails', async () => {
    await expect(build('tiny')).rejects.toThrow(/exists already/);
    const broken = {
      tokens: 1000,
      log: () => {
        throw new Error('disk full');
      },
    };
    const there = readdirSync(root);
    await expect(build('failed', broken)).rejects.toThrow('disk full');
    expect(readdirSync(root)).toEqual(there);
  });

  it('two that make the same folder at once: one of them stays, both are content', async () => {
    const lines = await Promise.all([build('raced'), build('raced')]);
    expect(bytes('raced').equals(bytes('tiny'))).toBe(true);
    expect(lines.flat().filter((line) => /another process/.test(line))).toHaveLength(1);
    expect(readdirSync(root).filter((name) => name.includes('raced'))).toEqual(['raced']);
  });
});
