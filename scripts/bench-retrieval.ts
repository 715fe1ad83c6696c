/**
 * Searches per second on the 60,000 articles of the reconstructed STARD corpus: the held-out questions as
 * they are, with a rewrite of six terms, and with the second stage on top. Ends with one JSON line; skips
 * where the data is absent.
 *
 * All kinds run in turn, several times over, and the median counts: a busy machine slows all alike, so the
 * ratios stand where the rates do not.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { mean, median } from '../src/base/statistics.ts';
import { loadCorpus } from '../src/env/corpus.ts';
import { lawOf, lawShortName } from '../src/env/law-name.ts';
import { loadQueries } from '../src/env/queries.ts';
import { createBm25Retriever } from '../src/env/retrieval/bm25.ts';
import { buildBm25Index } from '../src/env/retrieval/bm25-index.ts';
import { createLexicalReranker } from '../src/env/retrieval/lexical-rerank.ts';
import { termsOf } from '../src/env/retrieval/terms.ts';
import type { Article } from '../src/env/types.ts';
import { recallAt } from '../src/eval/metrics.ts';

const ROUNDS = 5;
const folder = fileURLToPath(new URL('../../shared/data/stard/', import.meta.url));

if (existsSync(folder)) await bench();
else console.log(`bench:retrieval skipped: the STARD corpus is not at ${folder}`);

async function bench(): Promise<void> {
  const corpus = await loadCorpus(`${folder}corpus.jsonl.gz`);
  const questions = await loadQueries(`${folder}validation.jsonl`, corpus);
  const before = heldBytes();
  const start = performance.now();
  const index = buildBm25Index(corpus.articles, { k1: 1.5, b: 0.75 });
  const buildSeconds = (performance.now() - start) / 1000;
  const indexMegabytes = (heldBytes() - before) / 1e6;
  const options = { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 0.5 } };
  const reranker = createLexicalReranker(corpus, index, { alpha: 0.9 });
  const idfOf = (term: string): number => index.idf[index.vocabulary.numberOf(term)] ?? 0;
  const requests = questions.map(({ query, gold }) => ({
    original: query,
    rewrite: sixTerms(corpus.byId.get(gold[0]!)!, idfOf),
  }));

  // A new retriever each time: none of its kept question scores from the last round.
  const retriever = () => createBm25Retriever(corpus, options, index);
  const timed = async (each: (r: ReturnType<typeof retriever>, i: number) => Promise<{ id: string }[]>) => {
    const fresh = retriever();
    const found: string[][] = [];
    const from = performance.now();
    for (let i = 0; i < requests.length; i++) found.push((await each(fresh, i)).map(({ id }) => id));
    return { seconds: (performance.now() - from) / 1000, found };
  };
  const plain = (i: number) => ({ original: requests[i]!.original, rewrite: requests[i]!.original });
  // 'question kept': eight rewrites of one question in a row, as the members of a group search.
  const kinds = {
    plain: (r: ReturnType<typeof retriever>, i: number) => r.search(plain(i), 30),
    rewrite: (r: ReturnType<typeof retriever>, i: number) => r.search(requests[i]!, 30),
    'rewrite, question kept': async (r: ReturnType<typeof retriever>, i: number) =>
      r.search({ ...requests[i]!, original: requests[i - (i % 8)]!.original }, 30),
    'plain + rerank': async (r: ReturnType<typeof retriever>, i: number) =>
      reranker.rerank(requests[i]!.original, await r.search(plain(i), 30), 10),
    'rewrite + rerank': async (r: ReturnType<typeof retriever>, i: number) =>
      reranker.rerank(requests[i]!.original, await r.search(requests[i]!, 30), 10),
  };
  const seconds = new Map<string, number[]>();
  const recall = new Map<string, number>();
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, each] of Object.entries(kinds)) {
      const one = await timed(each);
      // The first round warms the compiler and the reranker's term sets.
      if (round > 0) seconds.set(name, [...(seconds.get(name) ?? []), one.seconds]);
      recall.set(name, mean(one.found.map((ids, i) => recallAt(10, ids, questions[i]!.gold))));
    }
  }
  const rate = (name: string): number => requests.length / median(seconds.get(name)!);
  const base = rate('plain');
  console.log(`${corpus.articles.length} articles, ${requests.length} questions, one thread`);
  console.log(`index: ${buildSeconds.toFixed(1)} s to build, ${indexMegabytes.toFixed(0)} MB\n`);
  console.log(`${'search, top 30'.padEnd(26)}${'per second'.padStart(11)}${'of plain'.padStart(10)}`);
  for (const name of Object.keys(kinds)) {
    const share = (rate(name) / base).toFixed(2);
    console.log(`${name.padEnd(26)}${rate(name).toFixed(0).padStart(11)}${share.padStart(10)}`);
  }
  const round = (value: number, digits: number): number => Number(value.toFixed(digits));
  const report = {
    bench: 'retrieval',
    articles: corpus.articles.length,
    questions: requests.length,
    queriesPerSecond: round(base, 1),
    rewriteToPlain: round(rate('rewrite') / base, 3),
    rewriteKeptToPlain: round(rate('rewrite, question kept') / base, 3),
    rerankToPlain: round(rate('plain + rerank') / base, 3),
    rewriteRerankToPlain: round(rate('rewrite + rerank') / base, 3),
    buildSeconds: round(buildSeconds, 2),
    indexMegabytes: round(indexMegabytes, 0),
    'recall@10': round(recall.get('plain')!, 4),
    'recall@10 reranked': round(recall.get('plain + rerank')!, 4),
  };
  console.log(`\n${JSON.stringify(report)}`);
}

/** Bytes of the heap and of typed arrays after a collection. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** The law's short name and the article's six rarest pairs of characters: what a good rewriter would add. */
function sixTerms(article: Article, idfOf: (term: string) => number): string {
  const pairs = [...new Set(termsOf(article.text))].filter((term) => term.length === 2);
  const rare = pairs.sort((a, b) => idfOf(b) - idfOf(a) || (a < b ? -1 : 1)).slice(0, 6);
  return `${lawShortName(lawOf(article))}：${rare.join(' ')}`;
}
