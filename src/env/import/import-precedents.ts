/**
 * Judgments of other shapes as precedents, with article numbers of the Criminal Law. JuDGE: `all.json`, an array of
 * `{CaseId, Fact, "Full Document", Reasoning, Judgment, "Law Articles", …}`, and what its scripts make of that, lines of
 * `{text_id, text, la, fd}` (train, test, case_corpus). LeCaRDv2: a folder of candidates, each a file `{pid, qw, fact,
 * reason, result, charge, article}`, where `qw` is the text of the judgment; or the same as lines.
 */
import { z } from 'zod';
import type { Corpus } from '../corpus.ts';
import { NUMERAL } from '../lawyer/precedents/chinese-numerals.ts';
import { articleIndex, type Citation, citationsIn } from './article-index.ts';
import { type ImportReport, leaveOut } from './import-report.ts';
import { readRows, rowId } from './read-rows.ts';

export const PRECEDENT_SHAPES = ['judge', 'lecardv2'] as const;
export type PrecedentShape = (typeof PRECEDENT_SHAPES)[number];

/** A line of a file of precedents, as `loadPrecedents` reads it. */
export interface PrecedentLine {
  id: string;
  court: string | null;
  fact: string;
  judgment: string;
  articles: string[];
}

const text = z.string().default('');
const cited = z.array(z.union([z.string(), z.number()])).default([]);
const judge = z.looseObject({
  id: rowId,
  text_id: rowId,
  CaseId: rowId,
  court: z.string().nullish(),
  fact: text,
  text,
  judgment: text,
  fd: text,
  full_doc: text,
  articles: cited,
  la: cited,
  Fact: text,
  'Full Document': text,
  Reasoning: text,
  Judgment: text,
  'Law Articles': cited,
});
const lecard = z.looseObject({
  pid: rowId,
  id: rowId,
  qw: text,
  fact: text,
  reason: text,
  result: text,
  article: z.union([cited, z.string()]).default([]),
});

/**
 * The court that a judgment names first, such as 吉林省公主岭市人民法院; null for none, or one with blanks in its name:
 * then its level is still read from the judgment.
 */
const courtOf = (judgment: string): string | null =>
  /\p{Script=Han}{2,30}?(?:人民法院|(?:军事|海事|基层|中级|知识产权|金融|互联网|林区)法院|铁路运输(?:第[一二])?法院)/u.exec(
    judgment.slice(0, 200),
  )?.[0] ?? null;

const LAW = '中华人民共和国刑法';

const FIRST_NUMERAL = new RegExp(NUMERAL, 'u');

/** An article of the Criminal Law as such sets name it: 264, "264", "133-1", "第二百六十四条", "刑法264条第一款". */
function citationOf(given: string | number): Citation {
  const plain = String(given).normalize('NFKC').trim();
  if (/^\d+(?:-\d+)?$/.test(plain)) return { law: LAW, number: plain };
  const [first] = citationsIn(/^[^第]*条/u.test(plain) ? plain.replace(FIRST_NUMERAL, '第$&') : plain);
  return first ? { law: first.law || LAW, number: first.number } : { law: LAW, number: plain };
}

/** A row of either shape. */
interface Case extends Omit<PrecedentLine, 'articles'> {
  citations: Citation[];
}

const caseOfJudge = (row: z.infer<typeof judge>, line: number): Case => ({
  id: row.id ?? row.text_id ?? row.CaseId ?? `judge-${line}`,
  court: row.court ?? null,
  fact: row.fact || row.text || row.Fact,
  judgment:
    row.judgment ||
    row.fd ||
    row.full_doc ||
    row['Full Document'] ||
    [row.Reasoning, row.Judgment].join('\n').trim(),
  citations: [...row.articles, ...row.la, ...row['Law Articles']].map(citationOf),
});

const caseOfLecard = (
  { pid, id, qw, fact, reason, result, article }: z.infer<typeof lecard>,
  line: number,
): Case => ({
  id: pid ?? id ?? `lecardv2-${line}`,
  court: null,
  fact: fact || qw,
  // The sentence stands in the result, which the text may leave out.
  judgment: qw === '' ? [fact, reason, result].join('\n') : qw.includes(result) ? qw : `${qw}\n${result}`,
  citations: typeof article === 'string' ? citationsIn(article) : article.map(citationOf),
});

/** Reads `path`, rows of the shape, or a folder of them. Cases without facts are left out and told; so are single articles that the corpus has not. */
export async function importPrecedents(
  path: string,
  shape: PrecedentShape,
  corpus: Pick<Corpus, 'articles'>,
): Promise<{ precedents: PrecedentLine[]; report: ImportReport }> {
  const cases: Case[] = [];
  if (shape === 'judge') await readRows(path, judge, (row, line) => void cases.push(caseOfJudge(row, line)));
  else await readRows(path, lecard, (row, line) => void cases.push(caseOfLecard(row, line)));
  const index = articleIndex(corpus);
  const report: ImportReport = { read: cases.length, kept: 0, leftOut: {} };
  const precedents = new Map<string, PrecedentLine>();
  for (const { id, court, fact, judgment, citations } of cases) {
    if (fact.trim() === '') leaveOut(report, 'the facts are empty', id);
    else if (precedents.has(id)) leaveOut(report, 'the id stands there twice', id);
    else {
      const articles = new Set<string>();
      for (const citation of citations) {
        const found = index.find(citation);
        if (found !== null) articles.add(found);
        else leaveOut(report, `article ${citation.law} ${citation.number} is not in the corpus`, id);
      }
      precedents.set(id, { id, court: court ?? courtOf(judgment), fact, judgment, articles: [...articles] });
    }
  }
  report.kept = precedents.size;
  return { precedents: [...precedents.values()], report };
}
