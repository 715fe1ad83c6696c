/** Figures on STARD questions over the reconstructed corpus, where the data lies beside the project. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { stream } from '../../base/random.ts';
import { type Corpus, loadCorpus } from '../corpus.ts';
import { loadQueries } from '../queries.ts';
import type { Query } from '../types.ts';
import { type Bm25Retriever, createBm25Retriever } from './bm25.ts';
import { createLexicalReranker } from './lexical-rerank.ts';

const folder = fileURLToPath(new URL('../../../../shared/data/stard/', import.meta.url));
const absent = existsSync(folder) ? '' : `the STARD questions are not at ${folder}`;

let corpus: Corpus;
let retriever: Bm25Retriever;
let validation: Query[];
beforeAll(async () => {
  if (absent) return;
  corpus = await loadCorpus(`${folder}corpus.jsonl.gz`);
  retriever = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } });
  validation = await loadQueries(`${folder}validation.jsonl`, corpus);
});

const found = (ids: string[], gold: string[]) => ids.filter((id) => gold.includes(id)).length / gold.length;
const average = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

test('plain BM25 reaches the published figures of the corpus', async ({ skip }) => {
  skip(absent !== '', absent);
  expect(corpus.articles).toHaveLength(60_358);
  const lists = await Promise.all(
    validation.map(async ({ query, gold }) => {
      const hits = await retriever.search({ original: query, rewrite: query }, 100);
      return { ids: hits.map(({ id }) => id), gold };
    }),
  );
  const recall = (k: number) => average(lists.map(({ ids, gold }) => found(ids.slice(0, k), gold)));
  const places = lists.map(({ ids, gold }) => ids.slice(0, 10).map((id) => gold.includes(id)));
  const mrr = average(places.map((hit) => (hit.includes(true) ? 1 / (hit.indexOf(true) + 1) : 0)));
  const gain = (hit: boolean[]) => hit.reduce((sum, one, i) => sum + (one ? 1 / Math.log2(i + 2) : 0), 0);
  const ndcg = average(
    places.map((hit, i) => gain(hit) / gain(Array<boolean>(Math.min(10, lists[i]!.gold.length)).fill(true))),
  );
  const published = { r5: 0.446, r10: 0.506, r30: 0.601, r100: 0.691, mrr: 0.422, ndcg: 0.41 };
  const measured = { r5: recall(5), r10: recall(10), r30: recall(30), r100: recall(100), mrr, ndcg };
  // Digits count as words here, so a question or two come out otherwise.
  for (const [name, value] of Object.entries(published)) {
    expect(Math.abs(measured[name as keyof typeof measured] - value), name).toBeLessThan(0.0025);
  }
});

test('ten of thirty after the second stage hold no less than ten before', async ({ skip }) => {
  skip(absent !== '', absent);
  const { rerank } = createLexicalReranker(corpus, retriever.index, { alpha: 0.7 });
  const each = await Promise.all(
    validation.map(async ({ query, gold }) => {
      const hits = await retriever.search({ original: query, rewrite: query }, 30);
      const kept = await rerank(query, hits, 10);
      const ids = (list: { id: string }[]) => list.slice(0, 10).map(({ id }) => id);
      return { before: found(ids(hits), gold), after: found(ids(kept), gold) };
    }),
  );
  expect(average(each.map(({ after }) => after))).toBeGreaterThanOrEqual(
    average(each.map(({ before }) => before)),
  );
});

test('an article that only the expansion finds stays among the ten', async ({ skip }) => {
  skip(absent !== '', absent);
  const { rerank } = createLexicalReranker(corpus, retriever.index, { alpha: 0.7 });
  const only = { total: 0, kept: 0, nearTop: 0, nearTopKept: 0 };
  for (const { query, gold } of validation.slice(0, 150)) {
    const { title, text } = corpus.byId.get(gold[0]!)!;
    const plain = await retriever.search({ original: query, rewrite: query }, 30);
    const expanded = await retriever.search(
      { original: query, rewrite: `${title}，${text.slice(0, 20)}` },
      30,
    );
    const place = expanded.findIndex(({ id }) => id === gold[0]);
    if (place < 0 || place >= 10 || plain.some(({ id }) => id === gold[0])) continue;
    const stays = (await rerank(query, expanded, 10)).some(({ id }) => id === gold[0]) ? 1 : 0;
    only.total++;
    only.kept += stays;
    if (place >= 5) continue;
    only.nearTop++;
    only.nearTopKept += stays;
  }
  expect(only.nearTop).toBeGreaterThan(20);
  expect(only.nearTopKept).toBe(only.nearTop);
  expect(only.kept / only.total).toBeGreaterThan(0.9);
});

test('real questions are mostly known terms, made-up wording is mostly not', ({ skip }) => {
  skip(absent !== '', absent);
  const share = (text: string) => retriever.unknownTermShare(text);
  const real = validation.map(({ query }) => share(query));
  expect(average(real)).toBeLessThan(0.2);
  expect(real.filter((value) => value > 0.5).length / real.length).toBeLessThan(0.03);
  const characters = [
    ...new Set(
      corpus.articles
        .map(({ title }) => title)
        .join('')
        .match(/\p{Script=Han}/gu),
    ),
  ];
  const random = stream(1, 'made-up');
  for (let round = 0; round < 50; round++) {
    const made = Array.from({ length: 12 }, () => characters[random.int(characters.length)]).join('');
    expect(share(made)).toBeGreaterThan(0.5);
  }
});
