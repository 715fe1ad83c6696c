/**
 * What a search finds without any language model, given the same training questions: the figures that a
 * trained policy must be read against. Laws repeat: most questions ask about few of them, so a prior over
 * laws and the golds of similar training questions go a long way.
 *
 * Every constant is chosen on the training questions by recall@10, leaving the question itself out of the
 * counts and neighbours, never on the questions that are reported.
 */
import type { Corpus } from '../env/corpus.ts';
import { lawOf, lawShortName } from '../env/law-name.ts';
import type { Bm25Retriever } from '../env/retrieval/bm25.ts';
import {
  addCounts,
  addDistinct,
  addScores,
  type Bag,
  type Bm25Index,
  buildBm25Index,
  scoreAll,
  topHits,
} from '../env/retrieval/bm25-index.ts';
import { byScoreThenId } from '../env/retrieval/lexical-rerank.ts';
import type { Hit, Query } from '../env/types.ts';
import { recallAt } from './metrics.ts';

export interface Baseline {
  name: string;
  /** For each question that was asked about, in order: the best articles, best first. */
  rankings: string[][];
  /** The constants chosen on the training questions. */
  settings: Record<string, number>;
}

export interface BaselineData {
  corpus: Pick<Corpus, 'articles'>;
  train: readonly Query[];
  validation: readonly Query[];
}

const NAME_WEIGHTS = [0.25, 0.5, 1, 2, 4];
const PRIOR_WEIGHTS = [0, 1, 2, 3, 4, 5, 6, 8];
const NEIGHBOUR_WEIGHTS = [0, 0.3, 0.6, 1];
const NEIGHBOURS = 10;
/** The recall that decides constants. */
const TUNED_AT = 10;

/**
 * Rankings of the validation questions, `depth` long at most, by
 *
 * 1. BM25 of the question;
 * 2. the same with the short name of the law most cited in training added to every question;
 * 3. with the name of the law that holds most of the question's gold articles added (an oracle);
 * 4. BM25 among the articles of laws cited in training;
 * 5. score(q, d) = BM25(q, d) + c · ln(1 + n(law of d)) + w · Σ_j BM25(q, q_j) · [d is gold of q_j], with
 *    n the gold citations of a law in training and j over the ten training questions nearest by BM25.
 *
 * A name adds each of its distinct terms at one weight; that weight, c and w are chosen on `train`. Takes
 * some seconds on 60,000 articles and 800 training questions.
 */
export function baselineRankings(retriever: Bm25Retriever, data: BaselineData, depth = 30): Baseline[] {
  const stage = setStage(retriever, data);
  const top = (scores: Float32Array, k: number): string[] => idsOf(topHits(stage.index, scores, k));
  const rank = (scores: (query: Query) => Float32Array): string[][] =>
    data.validation.map((query) => top(scores(query), depth));
  const withName = (name: string, lawFor: (query: Query) => string): Baseline => {
    const score = (query: Query, weight: number) => addName(stage, query, lawFor(query), weight);
    const weight = choose(stage, NAME_WEIGHTS, (query) => (w) => top(score(query, w), TUNED_AT));
    return { name, rankings: rank((query) => score(query, weight)), settings: { weight } };
  };
  const grid = PRIOR_WEIGHTS.flatMap((c) => NEIGHBOUR_WEIGHTS.map((w) => ({ c, w })));
  const prior = choose(stage, grid, (query) => rankByPrior(stage, query, query, TUNED_AT));
  return [
    { name: 'BM25', rankings: rank(stage.plain), settings: {} },
    withName("BM25 + the most cited law's name", () => stage.mostCited),
    withName("BM25 + the gold law's name (oracle)", (query) => stage.goldLaw(query)),
    { name: 'BM25 within the laws cited in training', rankings: rank(withinCited(stage)), settings: {} },
    {
      name: 'BM25 + law prior + nearest training questions',
      rankings: data.validation.map((query) => rankByPrior(stage, query, null, depth)(prior)),
      settings: prior,
    },
  ];
}

/** What all baselines share. Documents and laws are numbers; citations count gold articles in training. */
interface Stage {
  index: Bm25Index;
  train: readonly Query[];
  /** Scores of the question alone, `[documents]`; not to be written to. */
  plain(query: Query): Float32Array;
  /** Law of each document, `[documents]`. */
  lawOfDocument: Int32Array;
  /** `[laws]` */
  citations: Float64Array;
  mostCited: string;
  goldLaw(query: Query): string;
  lawNumber(articleId: string): number;
  /** The training questions nearest to `query`, itself left out, best first. */
  nearest(query: Query): { score: number; gold: string[] }[];
}

function setStage(retriever: Bm25Retriever, { corpus, train: asked }: BaselineData): Stage {
  // A question without gold cites nothing and tunes nothing.
  const train = asked.filter(({ gold }) => gold.length > 0);
  const { index } = retriever;
  const lawNames: string[] = [];
  const numberOfLaw = new Map<string, number>();
  const lawOfArticle = new Map<string, number>();
  for (const article of corpus.articles) {
    const law = lawOf(article);
    if (!numberOfLaw.has(law)) numberOfLaw.set(law, lawNames.push(law) - 1);
    lawOfArticle.set(article.id, numberOfLaw.get(law)!);
  }
  const lawNumber = (id: string): number => lawOfArticle.get(id)!;
  const citations = new Float64Array(lawNames.length);
  for (const id of train.flatMap(({ gold }) => gold)) citations[lawNumber(id)]!++;
  const goldLaw = ({ gold }: Query): string => {
    const counts = new Map<number, number>();
    for (const law of gold.map(lawNumber)) counts.set(law, (counts.get(law) ?? 0) + 1);
    // A map keeps the order of insertion: the earlier gold wins a tie.
    return lawNames[[...counts].reduce((a, b) => (b[1] > a[1] ? b : a))[0]]!;
  };
  const questions = buildBm25Index(
    train.map(({ id, query }) => ({ id, title: '', text: query })),
    index.settings,
  );
  const goldOf = new Map(train.map(({ id, gold }) => [id, gold]));
  return {
    index,
    train,
    plain: ({ query }) => retriever.scores({ original: query, rewrite: query }),
    lawOfDocument: Int32Array.from(index.ids, lawNumber),
    citations,
    mostCited: lawNames[citations.reduce((best, n, law) => (n > citations[best]! ? law : best), 0)]!,
    goldLaw,
    lawNumber,
    nearest(query) {
      const bag: Bag = new Map();
      addCounts(bag, questions, query.query, 1);
      return topHits(questions, scoreAll(questions, bag), NEIGHBOURS + 1)
        .filter(({ id }) => id !== query.id)
        .slice(0, NEIGHBOURS)
        .map(({ id, score }) => ({ score, gold: goldOf.get(id)! }));
    },
  };
}

/**
 * The choice with the best mean recall on the training questions, the first of equals. One question at a
 * time, so that what all choices share is computed once.
 */
function choose<T>(
  stage: Stage,
  choices: readonly T[],
  ranker: (query: Query) => (choice: T) => string[],
): T {
  const sums = new Float64Array(choices.length);
  for (const query of stage.train) {
    const rank = ranker(query);
    choices.forEach((choice, i) => {
      sums[i]! += recallAt(TUNED_AT, rank(choice), query.gold);
    });
  }
  return choices[sums.reduce((best, sum, i) => (sum > sums[best]! + 1e-9 ? i : best), 0)]!;
}

function addName(stage: Stage, query: Query, law: string, weight: number): Float32Array {
  const scores = stage.plain(query);
  const bag: Bag = new Map();
  addDistinct(bag, stage.index, lawShortName(law), weight);
  addScores(scores, stage.index, bag);
  return scores;
}

function withinCited({ plain, lawOfDocument, citations }: Stage): (query: Query) => Float32Array {
  return (query) => plain(query).map((score, d) => (citations[lawOfDocument[d]!]! > 0 ? score : 0));
}

/**
 * Baseline 5: the first `depth` ids for any c and w. `leftOut`: a training question whose own citations
 * must not count.
 *
 * Documents whose laws are cited equally often keep their BM25 order under every c, so the best of each
 * such class and the neighbours' golds hold the best of all: hundreds of candidates instead of all.
 */
function rankByPrior(
  stage: Stage,
  query: Query,
  leftOut: Query | null,
  depth: number,
): (weights: { c: number; w: number }) => string[] {
  const plain = stage.plain(query);
  const citations = stage.citations.slice();
  for (const id of leftOut?.gold ?? []) citations[stage.lawNumber(id)]!--;
  const votes = new Map<number, number>();
  for (const { score, gold } of stage.nearest(query)) {
    for (const d of gold.map((id) => stage.index.documentOf.get(id)!))
      votes.set(d, (votes.get(d) ?? 0) + score);
  }
  const cited = (d: number): number => citations[stage.lawOfDocument[d]!]!;
  const candidates = new Set([...bestOfClasses(plain, cited, depth), ...votes.keys()]);
  return ({ c, w }) => {
    const hits = Array.from(candidates, (d) => ({
      id: stage.index.ids[d]!,
      score: plain[d]! + c * Math.log(1 + cited(d)) + w * (votes.get(d) ?? 0),
    }));
    return idsOf(hits.sort(byScoreThenId).slice(0, depth));
  };
}

/** The `depth` documents with the highest scores of every class, ties by document. */
function bestOfClasses(scores: Float32Array, classOf: (document: number) => number, depth: number): number[] {
  const classes = new Map<number, { best: number[]; bar: number }>();
  for (let d = 0; d < scores.length; d++) {
    const key = classOf(d);
    let kept = classes.get(key);
    if (!kept) {
      kept = { best: [], bar: -1 };
      classes.set(key, kept);
    }
    if (scores[d]! <= kept.bar) continue;
    let at = kept.best.length;
    while (at > 0 && scores[kept.best[at - 1]!]! < scores[d]!) at--;
    kept.best.splice(at, 0, d);
    if (kept.best.length > depth) kept.best.pop();
    if (kept.best.length === depth) kept.bar = scores[kept.best[depth - 1]!]!;
  }
  return [...classes.values()].flatMap(({ best }) => best);
}

const idsOf = (hits: Hit[]): string[] => hits.map(({ id }) => id);
