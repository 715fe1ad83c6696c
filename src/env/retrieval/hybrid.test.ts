import { expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from './bm25.ts';
import { createHybridRetriever, type Embedder, embeddedText, fuse } from './hybrid.ts';

const corpus = corpusOf([
  { id: 'lease', title: '租赁', text: '承租人应当支付租金，押金应当返还。' },
  { id: 'loan', title: '借款', text: '借款人应当返还借款。' },
  { id: 'work', title: '劳动', text: '用人单位应当支付劳动报酬。' },
]);
const lexical = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 0, rewrite: 1 } });
/** Meaning as three topics, by what a lay person says. */
const TOPICS = [/房东|租|押金/, /借|欠/, /工资|老板|劳动/];
const embedder = (): Embedder & { asked: string[] } => {
  const asked: string[] = [];
  return {
    name: 'topics',
    asked,
    embed: async (texts) => {
      asked.push(...texts);
      return texts.map((text) => Float32Array.from(TOPICS, (topic) => (topic.test(text) ? 3 : 0.1)));
    },
  };
};
const idsOf = (hits: { id: string }[]) => hits.map(({ id }) => id);
const open = (weight: number, by = embedder()) =>
  createHybridRetriever({
    lexical,
    embedder: by,
    weight,
    vectors: () => by.embed(lexical.index.ids.map((id) => embeddedText(corpus.byId.get(id)!))),
  });
const request = (rewrite: string) => ({ original: '', rewrite });

test('finds by meaning what no word says, and by words as BM25 does at weight 0', async () => {
  expect(idsOf(await lexical.search(request('老板不给工资'), 3))).toEqual([]);
  expect(idsOf(await open(0.4).search(request('老板不给工资'), 1))).toEqual(['work']);
  for (const query of ['返还押金', '支付劳动报酬', '返还借款']) {
    const plain = await lexical.search(request(query), 3);
    const hybrid = await open(0).search(request(query), plain.length);
    expect(idsOf(hybrid)).toEqual(idsOf(plain));
  }
});

test('embeds the corpus once, and each query once', async () => {
  const by = embedder();
  const retriever = open(0.5, by);
  await Promise.all(['房东', '房东', '工资'].map((query) => retriever.search(request(query), 2)));
  await retriever.search(request('房东'), 2);
  expect(by.asked).toHaveLength(3 + 2);
});

test('an embedder that fails fails the search, and is asked again by the next', async () => {
  let down = true;
  const inner = embedder();
  const by = {
    ...inner,
    embed: async (texts: readonly string[]) =>
      down ? Promise.reject(new Error('down')) : inner.embed(texts),
  };
  const retriever = open(0.5, by);
  await expect(retriever.search(request('房东'), 1)).rejects.toThrow('down');
  down = false;
  expect(idsOf(await retriever.search(request('房东'), 1))).toEqual(['lease']);
});

test('the fusion stays in [0, 1], and grows in both', () => {
  const random = stream(1, 'hybrid-test');
  for (let i = 0; i < 100; i++) {
    const n = 1 + random.int(20);
    const words = Float32Array.from({ length: n }, () => (random.int(3) === 0 ? 0 : 20 * random.next()));
    const meaning = Float32Array.from({ length: n }, () => 2 * random.next() - 1);
    const fused = fuse(words, meaning, random.next());
    for (const value of fused) expect(value >= 0 && value <= 1 + 1e-6).toBe(true);
    for (let a = 0; a < n; a++)
      for (let b = 0; b < n; b++)
        if (words[a]! >= words[b]! && meaning[a]! >= meaning[b]!)
          expect(fused[a]! + 1e-6).toBeGreaterThanOrEqual(fused[b]!);
  }
  expect(fuse(Float32Array.of(0, 0), Float32Array.of(0.5, 0.5), 0.5)).toEqual(Float32Array.of(0, 0));
});

test('vectors of different lengths are an error', async () => {
  const by: Embedder = {
    name: 'x',
    embed: async (texts) => texts.map((text) => new Float32Array(text.length).fill(1)),
  };
  await expect(open(0.5, by as never).search(request('房东'), 1)).rejects.toThrow(/dimensions/);
});
