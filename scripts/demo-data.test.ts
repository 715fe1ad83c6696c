import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { loadCorpus } from '../src/env/corpus.ts';
import { loadQueries } from '../src/env/queries.ts';
import { createBm25Retriever } from '../src/env/retrieval/bm25.ts';
import { ASKED, articleName, buildDemoData, MIN_SEEN, readLaws } from './demo-data/build.ts';
import { parseEnglish } from './demo-data/english.ts';
import { bm25, figures, grams, recall } from './demo-data/measure.ts';
import { type Question, splitQuestions } from './demo-data/questions.ts';
import { parseLaw } from './demo-data/table.ts';

const root = join(import.meta.dirname, '..');
const demo = (name: string): string => join(root, 'data/demo', name);
const data = buildDemoData();
const { statutes, train, validation } = data;
const questions = [...train, ...validation];
const labelled = (list: Question[]) => list.map((q) => ({ query: q.text, gold: q.gold }));

describe('the committed files', () => {
  it.each([...data.files.keys()])('%s is what the tables give', (name) => {
    expect(readFileSync(demo(name), 'utf8')).toBe(data.files.get(name));
  });

  it.each(['', 'en/'])('load as a corpus with labelled questions (%s)', async (folder) => {
    const corpus = await loadCorpus(demo(`${folder}statutes.jsonl`));
    for (const part of ['train', 'validation'])
      expect((await loadQueries(demo(`${folder}${part}.jsonl`), corpus)).length).toBeGreaterThan(9);
  });
});

describe('the demo data', () => {
  it('is large enough, distinct and of the promised shape', () => {
    expect(statutes.length).toBeGreaterThanOrEqual(300);
    expect(train.length).toBeGreaterThanOrEqual(300);
    expect(validation.length).toBeGreaterThanOrEqual(100);
    expect(new Set(statutes.map((s) => s.text)).size).toBe(statutes.length);
    expect(new Set(questions.map((q) => q.text)).size).toBe(questions.length);
    for (const { text } of questions) {
      expect([...text].length).toBeGreaterThanOrEqual(12);
      expect([...text].length).toBeLessThanOrEqual(45);
      expect(text).toMatch(/^\p{Script=Han}/u);
      expect(text).toMatch(/[？。]$/u);
      expect(text).not.toMatch(/[，；。：？]{2}/u);
    }
    for (const law of readLaws()) {
      expect(law.title).toMatch(/^示范/u);
      for (const { articles, events } of law.concepts) {
        expect(articles.length).toBeGreaterThanOrEqual(1);
        expect(articles.length).toBeLessThanOrEqual(6);
        expect(events.length).toBeGreaterThanOrEqual(3);
      }
    }
  });

  it('gives every lay phrase to one concept', () => {
    const phrases = readLaws().flatMap((law) => law.concepts.flatMap((c) => [...c.events, ...c.facts]));
    expect(new Set(phrases.map((p) => p.text)).size).toBe(phrases.length);
  });

  it('shows every held-out lay phrase at least three times in training', () => {
    const seen = new Map<string, number>();
    for (const { text } of train)
      for (const q of validation)
        for (const phrase of q.phrases) if (text.includes(phrase)) seen.set(`${phrase}|${text}`, 1);
    const counts = new Map<string, number>();
    for (const key of seen.keys()) {
      const phrase = key.slice(0, key.indexOf('|'));
      counts.set(phrase, (counts.get(phrase) ?? 0) + 1);
    }
    const rare = validation.flatMap((q) => q.phrases).filter((p) => (counts.get(p) ?? 0) < MIN_SEEN);
    expect(rare).toEqual([]);
    expect(MIN_SEEN).toBe(3);
  });

  it('holds out combinations: no two pieces of a held-out question stand together in training', () => {
    for (const q of validation) {
      expect(q.pairs.length).toBeGreaterThan(0);
      for (const pair of q.pairs) {
        const [a, b] = pair.split('|') as [string, string];
        expect(q.text.includes(a) && q.text.includes(b)).toBe(true);
        expect(train.filter((t) => t.text.includes(a) && t.text.includes(b)).map((t) => t.text)).toEqual([]);
      }
    }
  });

  it('is balanced: no concept above 6 % of the questions, each in training', () => {
    for (const list of [train, validation]) {
      const counts = new Map<string, number>();
      for (const q of list) for (const c of q.concepts) counts.set(c, (counts.get(c) ?? 0) + 1);
      expect(Math.max(...counts.values())).toBeLessThan(0.06 * list.length);
    }
    const asked = readLaws().filter(({ key }) => ASKED.has(key));
    const all = asked.flatMap((law) => law.concepts.map((c) => `${law.key}/${c.key}`));
    expect(all.filter((name) => !train.some((q) => q.concepts.includes(name)))).toEqual([]);
  });

  it('is hard for plain BM25 and easy for a rewrite in the words of a gold', () => {
    const found = figures(statutes, labelled(validation));
    expect(found.recallAt10).toBeGreaterThan(0.3);
    expect(found.recallAt10).toBeLessThan(0.45);
    expect(found.oracleAt10).toBeGreaterThan(0.7);
    expect(found.oracleWithQuestionAt10).toBeGreaterThan(0.75);
    expect(found.oraclePool).toBeGreaterThan(0.95);
  });

  it('shares no run of 14 characters with real statutes', (context) => {
    const path = join(root, '../shared/data/stard/corpus.jsonl.gz');
    if (!existsSync(path)) return context.skip('the STARD corpus is not at ../shared/data');
    const han = (text: string): string => text.replace(/[^\p{Script=Han}]/gu, '');
    const runs = new Map<string, string>();
    for (const { id, text } of statutes) {
      const plain = han(text);
      for (let i = 0; i + 14 <= plain.length; i++) runs.set(plain.slice(i, i + 14), id);
    }
    const shared = new Set<string>();
    for (const line of gunzipSync(readFileSync(path)).toString('utf8').split('\n')) {
      const plain = line === '' ? '' : han((JSON.parse(line) as { text: string }).text);
      for (let i = 0; i + 14 <= plain.length; i++) {
        const id = runs.get(plain.slice(i, i + 14));
        if (id) shared.add(`${id} ${plain.slice(i, i + 14)}`);
      }
    }
    expect([...shared]).toEqual([]);
  });
});

describe('measuring', () => {
  it('cuts text into unigrams and bigrams, apart at signs', () => {
    expect(grams('押金，退')).toEqual(['押', '金', '押金', '退']);
  });

  it('ranks as BM25 does by hand', () => {
    // N = 2, both of 3 grams (a, b, ab): '退' in one → idf ln(1 + 1.5/1.5) = ln 2; tf part 2.5/2.5 = 1.
    const search = bm25([
      { id: 'a', title: '', text: '押金' },
      { id: 'b', title: '', text: '退还' },
    ]);
    expect(search('退', 2)).toEqual(['b', 'a']);
    expect(search('？', 2)).toEqual(['a', 'b']);
    expect(recall([{ query: '退', gold: ['a', 'b'] }], (q) => search(q.query, 1))).toBe(0.5);
  });

  it("agrees with the project's retriever on the demo", async () => {
    const corpus = await loadCorpus(demo('statutes.jsonl'));
    const retriever = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 1, rewrite: 1 } });
    const search = bm25(statutes);
    for (const { text } of validation.slice(0, 40)) {
      const hits = await retriever.search({ original: text, rewrite: text }, 10);
      const ours = new Set(search(text, 10));
      expect(hits.filter((hit) => ours.has(hit.id)).length).toBeGreaterThanOrEqual(9);
    }
  });
});

describe('the tables', () => {
  const table =
    '法 x 示范条例\n景 甲\n景@他 乙\n总 丙\n题@他 k 钱\n条 一\n条 二\n事2 丁\n事 戊\n补~1 己\n求1~2 庚';

  it('are read mark by mark', () => {
    const [concept] = parseLaw(table, 't').concepts;
    expect(concept).toMatchObject({ key: 'k', claim: 'money', scenes: ['乙'], articles: ['一', '二'] });
    expect(concept!.events.map((e) => e.answers)).toEqual([[1], [0, 1]]);
    expect(concept!.facts[0]).toEqual({ text: '己', answers: [], fits: [0] });
    expect(concept!.termAsks[0]).toEqual({ text: '庚', answers: [0], fits: [1] });
  });

  it.each([
    ['法 x 示范条例\n何 丁', 't:2'],
    ['法 x 示范条例\n条 一', 't:2'],
    ['法 x 示范条例\n题 k\n条 一\n事2 丁', 't:4'],
  ])('refuse a line that says nothing (%#)', (source, where) => {
    expect(() => parseLaw(source, 't')).toThrow(where);
  });

  it('number articles in Chinese and in English', () => {
    expect([1, 10, 11, 20, 25, 99].map(articleName)).toEqual(
      ['一', '十', '十一', '二十', '二十五', '九十九'].map((n) => `第${n}条`),
    );
    const english = parseEnglish('L a First Act\nA x\nL b Second Act\nA y\nA z\nT 2 | why?');
    expect(english.statutes[2]).toMatchObject({ id: 'en-b-02', title: 'Second Act, s. 2', article: 's. 2' });
    expect(english.train).toEqual([{ text: 'why?', gold: ['en-b-02'] }]);
    expect(() => parseEnglish('L a First Act\nA x\nV 2 | why?')).toThrow('english.txt:3');
  });
});

describe('splitting', () => {
  const question = (text: string, ...phrases: string[]): Question => ({
    text,
    gold: ['a'],
    kind: 'single',
    concepts: ['c'],
    phrases,
    pairs: [],
  });

  it('stops when a phrase would be left too rare', () => {
    const five = [1, 2, 3, 4, 5].map((n) => question(`q${n}`, 'p'));
    const split = splitQuestions([...five, question('q6', 'p', 'rare')], 5, 3);
    expect(split.train.length).toBe(3);
    expect(split.train.map((q) => q.text)).toContain('q6');
  });
});
