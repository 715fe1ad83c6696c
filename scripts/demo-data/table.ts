/**
 * The written material of the demo data, one text file a law. A line starts with a mark and a space:
 *
 *   法 key title   the law; `key` begins its articles' ids
 *   景 text        a scene in which a question of this law can begin; 景@view for another asker's view;
 *                  below a 题: scenes of that concept alone
 *   总 text        an article no question asks for (scope, definitions): everyday words, so a distractor
 *   题 key         a concept; 题@view when its asker is of that view; `题 key 钱` when it is about money owed
 *                  (any procedural concept goes with it), `题 key -` when none goes with it
 *   条 text        an article of the concept, numbered from 1 within it
 *   事 text        a lay phrase: what happened; 事13: answered by articles 1 and 3 (bare: by all)
 *   补 text        a lay phrase: a further fact; 补~12: fits behind the first and second 事 (bare: any)
 *   问 text        what is asked, in lay words; 问~12 as for 补
 *   求 text        what is asked, with a word of the statute; 求2~1: article 2 answers it as well
 */
import { UserError } from '../../src/base/errors.ts';

/** A lay phrase; `answers`: the concept's articles that answer it; `fits`: the events it goes with. 0-based. */
export interface Phrase {
  text: string;
  answers: number[];
  fits: number[];
}

export interface Concept {
  key: string;
  view: string;
  claim: 'money' | 'other' | 'none';
  scenes: string[];
  articles: string[];
  events: Phrase[];
  facts: Phrase[];
  layAsks: Phrase[];
  termAsks: Phrase[];
}

export interface Law {
  key: string;
  title: string;
  scenes: Map<string, string[]>;
  general: string[];
  concepts: Concept[];
}

const LINE = /^(法|景|总|题|条|事|补|问|求)(@\S+)?(\d*)(?:~(\d+))? (.+)$/u;
const LISTS = { 事: 'events', 补: 'facts', 问: 'layAsks', 求: 'termAsks' } as const;
const CLAIMS: Record<string, Concept['claim']> = { 钱: 'money', '-': 'none' };

const newConcept = (text: string, view: string): Concept => {
  const [key = '', flag = ''] = text.split(' ');
  const lists = { scenes: [], articles: [], events: [], facts: [], layAsks: [], termAsks: [] };
  return { key, view, claim: CLAIMS[flag] ?? 'other', ...lists };
};

/** Parses one law's table; `where` names the file in errors. Throws `UserError` on a malformed line. */
export function parseLaw(source: string, where: string): Law {
  const law: Law = { key: '', title: '', scenes: new Map(), general: [], concepts: [] };
  const pending: (() => void)[] = [];
  source.split('\n').forEach((line, index) => {
    if (line === '') return;
    const at = `${where}:${index + 1}`;
    const match = LINE.exec(line);
    if (!match) throw new UserError(`no such line: ${line}`, at);
    const [mark = '', tag = '@', answers = '', fits = '', text = ''] = match.slice(1);
    const view = tag.slice(1);
    const concept = law.concepts.at(-1);
    if (mark === '法') [law.key, law.title] = text.split(' ') as [string, string];
    else if (mark === '总') law.general.push(text);
    else if (mark === '题') law.concepts.push(newConcept(text, view));
    else if (mark === '景' && !concept) law.scenes.set(view, [...(law.scenes.get(view) ?? []), text]);
    else if (!concept) throw new UserError(`${mark} before the first 题`, at);
    else if (mark === '景') concept.scenes.push(text);
    else if (mark === '条') concept.articles.push(text);
    else {
      const list = LISTS[mark as keyof typeof LISTS];
      const phrase: Phrase = { text, answers: [], fits: [] };
      concept[list].push(phrase);
      pending.push(() => {
        phrase.answers = places(answers, concept.articles, list === 'events', at);
        phrase.fits = places(fits, concept.events, true, at);
      });
    }
  });
  for (const resolve of pending) resolve();
  for (const concept of law.concepts)
    if (concept.scenes.length === 0) concept.scenes = law.scenes.get(concept.view) ?? [];
  return law;
}

/** '13' → [0, 2]; '' → every place or none. Throws when a digit names nothing in `items`. */
function places(digits: string, items: unknown[], byDefault: boolean, at: string): number[] {
  if (digits === '') return byDefault ? items.map((_, i) => i) : [];
  const found = [...digits].map((digit) => Number(digit) - 1);
  if (found.some((i) => items[i] === undefined)) throw new UserError(`no number ${digits} here`, at);
  return found;
}
