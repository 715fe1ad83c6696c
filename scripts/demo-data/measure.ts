/**
 * What plain retrieval finds on the demo data: BM25 (k1 1.5, b 0.75) over character unigrams and bigrams of
 * title and text, written apart from src/env so that the two can disagree. All functions are pure.
 */
export interface Row {
  id: string;
  title: string;
  text: string;
}

export interface Labelled {
  query: string;
  gold: string[];
}

/** Runs of letters and digits (Han characters one by one) → unigrams and bigrams; blanks and signs part runs. */
export function grams(text: string): string[] {
  const out: string[] = [];
  for (const run of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    const units = [...run];
    units.forEach((unit, i) => {
      out.push(unit);
      if (i > 0) out.push(units[i - 1]! + unit);
    });
  }
  return out;
}

const countOf = (items: string[]): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
};

/** A search over `rows`: text → ids of the best `k`, best first, ties by id. */
export function bm25(rows: Row[], k1 = 1.5, b = 0.75): (text: string, k: number) => string[] {
  const docs = rows.map((row) => grams(`${row.title} ${row.text}`));
  const mean = docs.reduce((sum, doc) => sum + doc.length, 0) / rows.length;
  const postings = new Map<string, [doc: number, weight: number][]>();
  docs.forEach((doc, i) => {
    for (const [gram, tf] of countOf(doc)) {
      const weight = (tf * (k1 + 1)) / (tf + k1 * (1 - b + (b * doc.length) / mean));
      const list = postings.get(gram);
      if (list) list.push([i, weight]);
      else postings.set(gram, [[i, weight]]);
    }
  });
  return (text, k) => {
    const scores = new Float64Array(rows.length);
    for (const [gram, times] of countOf(grams(text))) {
      const list = postings.get(gram) ?? [];
      const idf = Math.log(1 + (rows.length - list.length + 0.5) / (list.length + 0.5));
      for (const [doc, weight] of list) scores[doc]! += times * idf * weight;
    }
    return rows
      .map((row, i) => ({ id: row.id, score: scores[i]! }))
      .sort((x, y) => y.score - x.score || (x.id < y.id ? -1 : 1))
      .slice(0, k)
      .map((hit) => hit.id);
  };
}

/** Mean share of the gold articles that `found` has. */
export function recall(questions: Labelled[], found: (question: Labelled) => string[]): number {
  const shares = questions.map((q) => {
    const ids = new Set(found(q));
    return q.gold.filter((id) => ids.has(id)).length / q.gold.length;
  });
  return shares.reduce((sum, share) => sum + share, 0) / questions.length;
}

/**
 * The rewrite that knows a gold article: the law's short title and five terms of the article, here its
 * n-grams of 2 to 5 characters with the highest √tf · idf · √length that another article has too, none
 * inside another.
 */
export function oracleRewrite(rows: (Row & { law: string })[]): (id: string) => string {
  const gramsOf = (text: string): string[] =>
    (text.match(/\p{Script=Han}+/gu) ?? []).flatMap((run) => {
      const units = [...run];
      return units.flatMap((_, i) =>
        [2, 3, 4, 5].filter((n) => i + n <= units.length).map((n) => units.slice(i, i + n).join('')),
      );
    });
  const df = countOf(rows.flatMap((row) => [...new Set(gramsOf(row.text))]));
  const byId = new Map(rows.map((row) => [row.id, row]));
  return (id) => {
    const row = byId.get(id)!;
    const scored = [...countOf(gramsOf(row.text))]
      .filter(([gram]) => df.get(gram)! > 1)
      .map(([gram, tf]) => ({
        gram,
        score: Math.sqrt(tf * gram.length) * Math.log(rows.length / df.get(gram)!),
      }))
      .sort((x, y) => y.score - x.score || (x.gram < y.gram ? -1 : 1));
    const terms: string[] = [];
    for (const { gram } of scored) {
      if (terms.length === 5) break;
      if (!terms.some((term) => term.includes(gram) || gram.includes(term))) terms.push(gram);
    }
    return `${row.law.replace(/^示范|条例$|规定$|管理办法$/gu, '')}：${terms.join(' ')}`;
  };
}

/** Recall at 5, 10 and 30 of the plain question, and at 10 with an oracle's rewrite, each rounded to .001. */
export interface Figures {
  questions: number;
  recallAt5: number;
  recallAt10: number;
  recallAt30: number;
  /** The oracle's rewrite of one gold alone, mean over the golds of a question. */
  oracleAt10: number;
  /** The same behind the question. */
  oracleWithQuestionAt10: number;
  /** The first five hits of a rewrite for each gold. */
  oraclePool: number;
  /** How many questions have 1, 2, … golds. */
  golds: string;
}

export function figures(rows: (Row & { law: string })[], questions: Labelled[]): Figures {
  const search = bm25(rows);
  const oracle = oracleRewrite(rows);
  const round = (x: number): number => Math.round(x * 1000) / 1000;
  const plain = (k: number): number => round(recall(questions, (q) => search(q.query, k)));
  const perGold = questions.flatMap((q) => q.gold.map((id) => ({ ...q, id, weight: 1 / q.gold.length })));
  const oracleRecall = (text: (q: (typeof perGold)[number]) => string): number => {
    const sum = perGold.reduce((s, q) => s + q.weight * recall([q], () => search(text(q), 10)), 0);
    return round(sum / questions.length);
  };
  const most = Math.max(...questions.map((q) => q.gold.length));
  return {
    questions: questions.length,
    recallAt5: plain(5),
    recallAt10: plain(10),
    recallAt30: plain(30),
    oracleAt10: oracleRecall((q) => oracle(q.id)),
    oracleWithQuestionAt10: oracleRecall((q) => `${q.query} ${oracle(q.id)}`),
    oraclePool: round(recall(questions, (q) => q.gold.flatMap((id) => search(oracle(id), 5)))),
    golds: Array.from(
      { length: most },
      (_, i) => questions.filter((q) => q.gold.length === i + 1).length,
    ).join(' '),
  };
}

/** Recall at 10 of a look-up without statutes: the golds of the ten nearest training questions, by rank. */
export function lookUp(train: Labelled[], questions: Labelled[]): number {
  const search = bm25(train.map(({ query }, i) => ({ id: String(i), title: '', text: query })));
  return recall(questions, ({ query }) => {
    const votes = new Map<string, number>();
    search(query, 10).forEach((id, rank) => {
      for (const gold of train[Number(id)]!.gold) votes.set(gold, (votes.get(gold) ?? 0) + 1 / (rank + 1));
    });
    const ranked = [...votes].sort((x, y) => y[1] - x[1] || (x[0] < y[0] ? -1 : 1));
    return ranked.slice(0, 10).map(([id]) => id);
  });
}
