import { expect, test } from 'vitest';
import { corpusOf } from '../corpus.ts';
import { createBm25Retriever } from './bm25.ts';
import { namedLaw } from './named-law.ts';

const corpus = corpusOf([
  { id: 'civil', title: '民法典第一条', law: '中华人民共和国民法典', text: '押金应当返还。' },
  { id: 'other', title: '民法典第二条', law: '中华人民共和国民法典', text: '收养应当登记。' },
  {
    id: 'labour',
    title: '劳动法第一条',
    law: '中华人民共和国劳动法',
    text: '押金押金应当返还，参照民法典。',
  },
]);
const base = { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 1 } };
/** Scores by article. */
function scores(rewrite: string, lawBoost: number, original = '押金不退'): Record<string, number> {
  const retriever = createBm25Retriever(corpus, { ...base, lawBoost });
  const all = retriever.scores({ original, rewrite });
  return Object.fromEntries(retriever.index.ids.map((id, d) => [id, all[d]!]));
}

test('a law is named before the first colon, in either width, in brackets or not', () => {
  expect(namedLaw('民法典：押金 返还')).toBe('民法典');
  expect(namedLaw(' 《劳动法》: 工资')).toBe('劳动法');
  for (const none of ['押金 返还', '：押金', '', '押金，民法典']) expect(namedLaw(none)).toBe(null);
});

test('the articles of the named law gain a share of the best score, by short and by full name', () => {
  for (const name of ['民法典', '中华人民共和国民法典', '《民法典》']) {
    const rewrite = `${name}：押金`;
    const plain = scores(rewrite, 0);
    const best = Math.max(...Object.values(plain));
    const boosted = scores(rewrite, 0.3);
    for (const id of ['civil', 'other']) expect(boosted[id]!).toBeCloseTo(plain[id]! + 0.3 * best, 4);
    expect(boosted.labour).toBe(plain.labour);
  }
});

test('an unknown law, none, and a question that is searched as it stands change nothing', () => {
  for (const rewrite of ['刑法：押金', '押金 返还']) expect(scores(rewrite, 0.5)).toEqual(scores(rewrite, 0));
  const question = '民法典：押金不退';
  expect(scores(question, 0.5, question)).toEqual(scores(question, 0, question));
});

test('search, scores and ranks agree', async () => {
  const retriever = createBm25Retriever(corpus, { ...base, lawBoost: 1 });
  const request = { original: '押金不退', rewrite: '民法典：收养' };
  const hits = await retriever.search(request, 3);
  const ranks = retriever.ranksOf(
    request,
    hits.map(({ id }) => id),
  );
  expect(ranks).toEqual(hits.map((_, i) => i + 1));
  expect(hits.at(-1)!.id).toBe('labour');
});
