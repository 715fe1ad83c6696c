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

/** A search over `rows`: text → ids of the best `k`, best first. */
export function bm25(rows: Row[], k1 = 1.5, b = 0.75): (text: string, k: number) => string[] {
  const docs = rows.map((row) => countOf(grams(`${row.title} ${row.text}`)));
  const lengths = docs.map((doc) => [...doc.values()].reduce((sum, n) => sum + n, 0));
  const mean = lengths.reduce((sum, n) => sum + n, 0) / rows.length;
  const df = countOf(docs.flatMap((doc) => [...doc.keys()]));
  const idf = (n: number): number => Math.log(1 + (rows.length - n + 0.5) / (n + 0.5));
  return (text, k) => {
    const query = [...countOf(grams(text))].filter(([gram]) => df.has(gram));
    const scores = docs.map((doc, i) => {
      let score = 0;
      for (const [gram, weight] of query) {
        const tf = doc.get(gram);
        if (tf)
          score +=
            weight * idf(df.get(gram)!) * ((tf * (k1 + 1)) / (tf + k1 * (1 - b + (b * lengths[i]!) / mean)));
      }
      return score;
    });
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
