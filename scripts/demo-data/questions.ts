/** Composes the demo questions from the tables and splits them by combination. Deterministic. */
import { type Random, stream } from '../../src/base/random.ts';
import type { Concept, Law, Phrase } from './table.ts';

/**
 * A composed question. `phrases` are the lay phrases in it (never the ask); `pairs` are the combinations of
 * two pieces in it, each used in one question only, so that no combination is on both sides of the split.
 */
export interface Question {
  text: string;
  gold: string[];
  kind: 'single' | 'compound' | 'procedural';
  concepts: string[];
  phrases: string[];
  pairs: string[];
}

/** A concept with its law's key and its articles' ids. */
export interface Placed {
  law: string;
  name: string;
  concept: Concept;
  ids: string[];
}

const SEED = 20;
const LENGTH = { min: 12, max: 45 };
const SHARE = { termAsk: 0.06, commonAsk: 0.2 };
const COMMON_ASKS = ['我该怎么办', '法律上怎么说', '有什么办法吗', '这种情况怎么处理'];
const OPENERS = ['请问', '想问一下，', '求助：', '帮忙看看，'];
const JOINTS = ['；另外，', '；还有，', '。还有件事，', '；除了这个，'];
const BOTH_ASKS = [
  '这两件事分别怎么办',
  '两样都能讨个说法吗',
  '我该怎么办',
  '各自该怎么处理',
  '这些有人管吗',
];

type Draft = Omit<Question, 'pairs'> & { pairs: [string, string][] };

const pick = <T>(items: readonly T[], random: Random): T => items[random.int(items.length)]!;

/** The general (empty-view) laws' concepts placed in order; article ids count through the law. */
export function placeConcepts(law: Law): Placed[] {
  let next = law.general.length + 1;
  return law.concepts.map((concept) => {
    const ids = concept.articles.map(() => `${law.key}-${String(next++).padStart(2, '0')}`);
    return { law: law.key, name: `${law.key}/${concept.key}`, concept, ids };
  });
}

function goldOf(placed: Placed, event: Phrase, ask?: Phrase): string[] {
  const answers = new Set([...event.answers, ...(ask?.answers ?? [])]);
  return placed.ids.filter((_, i) => answers.has(i));
}

const fitting = (phrases: Phrase[], place: number): Phrase[] => phrases.filter((p) => p.fits.includes(place));

/** An ask that fits the event: in lay words, now and then with a word of the statute, or a common one. */
function drawAsk(concept: Concept, event: Phrase, random: Random): Phrase {
  const place = concept.events.indexOf(event);
  const draw = random.next();
  const own = fitting(draw < SHARE.termAsk ? concept.termAsks : concept.layAsks, place);
  if (own.length > 0 && draw < 1 - SHARE.commonAsk) return pick(own, random);
  return { text: pick(COMMON_ASKS, random), answers: [], fits: [] };
}

function single(
  placed: Placed,
  event: Phrase,
  fact: string | undefined,
  scene: string | undefined,
  random: Random,
): Draft {
  const ask = drawAsk(placed.concept, event, random);
  const story = [event.text, fact].filter(Boolean).join('，');
  const withScene = scene
    ? `${scene}，${story}`
    : `${random.int(3) === 0 ? pick(OPENERS, random) : ''}${story}`;
  const form = random.int(6);
  const text =
    form === 0 && scene
      ? `${ask.text}？${withScene}。`
      : form === 1 && fact && scene
        ? `${scene}，${event.text}。${fact}，${ask.text}？`
        : `${withScene}，${ask.text}？`;
  const pairs: [string, string][] = [];
  if (scene) pairs.push([scene, event.text]);
  if (fact) pairs.push([event.text, fact]);
  return {
    text,
    gold: goldOf(placed, event, ask),
    kind: 'single',
    concepts: [placed.name],
    phrases: [event.text, ...(fact ? [fact] : [])],
    pairs,
  };
}

function compound(
  a: Placed,
  b: Placed,
  ea: Phrase,
  eb: Phrase,
  scene: string | undefined,
  random: Random,
): Draft {
  const start = scene ? `${scene}，` : '';
  const text = `${start}${ea.text}${pick(JOINTS, random)}${eb.text}，${pick(BOTH_ASKS, random)}？`;
  const pairs: [string, string][] = [[ea.text, eb.text]];
  if (scene) pairs.push([scene, ea.text], [scene, eb.text]);
  return {
    text,
    gold: [...goldOf(a, ea), ...goldOf(b, eb)],
    kind: 'compound',
    concepts: [a.name, b.name],
    phrases: [ea.text, eb.text],
    pairs,
  };
}

function procedural(
  a: Placed,
  p: Placed,
  ea: Phrase,
  ep: Phrase,
  scene: string | undefined,
  random: Random,
): Draft {
  const ask = drawAsk(p.concept, ep, random);
  const start = scene ? `${scene}，` : '';
  const pairs: [string, string][] = [[ea.text, ep.text]];
  if (scene) pairs.push([scene, ea.text], [scene, ep.text]);
  return {
    text: `${start}${ea.text}，${ep.text}，${ask.text}？`,
    gold: [...goldOf(a, ea), ...goldOf(p, ep, ask)],
    kind: 'procedural',
    concepts: [a.name, p.name],
    phrases: [ea.text, ep.text],
    pairs,
  };
}

/** Keeps what has the right length, a new text and only new pairs; counts the use of every lay phrase. */
class Pool {
  readonly questions: Question[] = [];
  readonly uses = new Map<string, number>();
  private readonly pairs = new Set<string>();
  private readonly texts = new Set<string>();

  add(draft: Draft): boolean {
    const keys = draft.pairs.map((pair) => [...pair].sort().join('|'));
    const length = [...draft.text].length;
    if (length < LENGTH.min || length > LENGTH.max) return false;
    if (this.texts.has(draft.text) || keys.some((key) => this.pairs.has(key))) return false;
    this.texts.add(draft.text);
    for (const key of keys) this.pairs.add(key);
    for (const phrase of draft.phrases) this.uses.set(phrase, this.count(phrase) + 1);
    this.questions.push({ ...draft, pairs: keys });
    return true;
  }

  count(phrase: string): number {
    return this.uses.get(phrase) ?? 0;
  }

  /** The events of a concept, least used first, ties in random order. */
  leastUsed(concept: Concept, random: Random): Phrase[] {
    return random.shuffle(concept.events).sort((x, y) => this.count(x.text) - this.count(y.text));
  }
}

/** Tries drafts until one is kept or `tries` are spent. */
function keepOne(pool: Pool, tries: number, draft: (attempt: number) => Draft): boolean {
  for (let attempt = 0; attempt < tries; attempt++) if (pool.add(draft(attempt))) return true;
  return false;
}

/** All questions, before the split. `procedure` is the law whose concepts go with any other law's. */
export function composeQuestions(laws: Law[], procedureKey: string): Question[] {
  const pool = new Pool();
  const placed = laws.flatMap(placeConcepts);
  const substantive = placed.filter((p) => p.law !== procedureKey);
  const procedure = placed.filter((p) => p.law === procedureKey);
  for (const [index, p] of substantive.entries()) {
    composeSingles(pool, p, stream(SEED, 'single', p.name), index);
  }
  for (const p of procedure) {
    const random = stream(SEED, 'single', p.name);
    for (const event of p.concept.events)
      keepOne(pool, 20, () => single(p, event, undefined, pick(p.concept.scenes, random), random));
  }
  substantive.forEach((p) => {
    const random = stream(SEED, 'compound', p.name);
    const near = substantive.filter((o) => o.law === p.law && o.concept.view === p.concept.view && o !== p);
    const far = substantive.filter((o) => o.law !== p.law);
    for (const partners of [near, near, near, random.int(2) === 0 ? far : near, far]) {
      keepOne(pool, 60, (attempt) => {
        const other = pick(partners.length > 0 ? partners : far, random);
        const ea = pool.leastUsed(p.concept, random)[attempt % p.concept.events.length]!;
        const eb = pool.leastUsed(other.concept, random)[0]!;
        const scene = partners === near && random.int(4) === 0 ? pick(p.concept.scenes, random) : undefined;
        return compound(p, other, ea, eb, scene, random);
      });
    }
  });
  substantive
    .filter((p) => p.concept.claim !== 'none')
    .forEach((p, index) => {
      const random = stream(SEED, 'procedural', p.name);
      const tails = procedure.filter((t) => t.concept.claim !== 'money' || p.concept.claim === 'money');
      for (let i = 0; i < 3; i++) {
        keepOne(pool, 40, (attempt) => {
          const tail = tails[(index * 3 + i + attempt) % tails.length]!;
          const ea = pool.leastUsed(p.concept, random)[attempt % p.concept.events.length]!;
          const ep = pool.leastUsed(tail.concept, random)[0]!;
          const scene = random.int(3) === 0 ? pick(p.concept.scenes, random) : undefined;
          return procedural(p, tail, ea, ep, scene, random);
        });
      }
    });
  return pool.questions;
}

/**
 * A concept's plain questions: its most general fact goes with every event it fits (so that one such pair can
 * be held out and the fact still be seen often), the other facts with up to three, and many events with a scene
 * alone.
 */
function composeSingles(pool: Pool, placed: Placed, random: Random, index: number): void {
  const { concept } = placed;
  const facts = random.shuffle(concept.facts).sort((x, y) => y.fits.length - x.fits.length);
  const sceneOrNot = (): string | undefined =>
    random.int(2) === 0 ? pick(concept.scenes, random) : undefined;
  const event = (): Phrase => pool.leastUsed(concept, random)[0]!;
  for (const place of facts[0]?.fits ?? []) {
    keepOne(pool, 20, () => single(placed, concept.events[place]!, facts[0]!.text, sceneOrNot(), random));
  }
  for (const fact of facts.slice(1)) {
    for (const place of fact.fits.slice(0, 3))
      keepOne(pool, 20, () => single(placed, concept.events[place]!, fact.text, sceneOrNot(), random));
  }
  for (let i = facts[0]?.fits.length ?? 0; i < 12 + (index % 2); i++) {
    keepOne(pool, 20, () => single(placed, event(), undefined, pick(concept.scenes, random), random));
  }
}

/**
 * Splits by combination: a question is held out only while each of its lay phrases stays at least
 * `minSeen` times in training; concepts take turns, so none dominates. Pairs are unique by construction.
 */
export function splitQuestions(
  questions: Question[],
  heldOut: number,
  minSeen: number,
): { train: Question[]; validation: Question[] } {
  const random = stream(SEED, 'split');
  const left = new Map<string, number>();
  for (const q of questions) for (const p of q.phrases) left.set(p, (left.get(p) ?? 0) + 1);
  const byConcept = new Map<string, Question[]>();
  for (const q of random.shuffle(questions)) {
    const name = q.concepts[random.int(q.concepts.length)]!;
    byConcept.set(name, [...(byConcept.get(name) ?? []), q]);
  }
  const validation = new Set<Question>();
  const names = random.shuffle([...byConcept.keys()].sort());
  for (let moved = true; moved && validation.size < heldOut; ) {
    moved = false;
    for (const name of names) {
      const queue = byConcept.get(name)!;
      const at = queue.findIndex((q) => q.phrases.every((p) => left.get(p)! > minSeen));
      if (at < 0 || validation.size >= heldOut) continue;
      const [question] = queue.splice(at, 1) as [Question];
      validation.add(question);
      for (const p of question.phrases) left.set(p, left.get(p)! - 1);
      moved = true;
    }
  }
  const order = random.shuffle(questions);
  return {
    train: order.filter((q) => !validation.has(q)),
    validation: order.filter((q) => validation.has(q)),
  };
}
