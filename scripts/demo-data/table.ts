/**
 * The written material of the demo data, one text file a law. A line starts with a mark and a space:
 *
 *   法 key title       the law; `key` begins its articles' ids
 *   景 text            a scene in which a question of this law can begin; 景@view for another asker's view;
 *                      below a 题: scenes of that concept alone
 *   总 text            an article no question asks for (scope, definitions): everyday words, so a distractor
 *   题 key             a concept; 题@view when its asker is of that view; `题 key -` takes no procedural tail
 *   条 text            an article of the concept, numbered from 1 within it
 *   事 text            a lay phrase: what happened; 事13: answered by articles 1 and 3 (bare: by all)
 *   补 text            a lay phrase: a further fact, fits behind any 事 of the concept
 *   问 text            what is asked, in lay words
 *   求 text            what is asked, with a word of the statute; 求2: article 2 answers it as well
 */
import { UserError } from '../../src/base/errors.ts';

/** A phrase and the concept's articles (0-based) that answer it. */
export interface Phrase {
  text: string;
  answers: number[];
}

export interface Concept {
  key: string;
  view: string;
  takesProcedure: boolean;
  scenes: string[];
  articles: string[];
  events: Phrase[];
  facts: string[];
  layAsks: string[];
  termAsks: Phrase[];
}

export interface Law {
  key: string;
  title: string;
  scenes: Map<string, string[]>;
  general: string[];
  concepts: Concept[];
}

const LINE = /^(法|景|总|题|条|事|补|问|求)(@\S+|\d+)? (.+)$/u;

/** Parses one law's table; `where` names the file in errors. Throws `UserError` on a malformed line. */
export function parseLaw(source: string, where: string): Law {
  const law: Law = { key: '', title: '', scenes: new Map(), general: [], concepts: [] };
  const raw: { phrase: Phrase; digits: string; concept: Concept; implied: boolean }[] = [];
  source.split('\n').forEach((line, index) => {
    if (line === '') return;
    const match = LINE.exec(line);
    if (!match) throw new UserError(`no such line: ${line}`, `${where}:${index + 1}`);
    const [, mark, tag = '', text] = match as unknown as [string, string, string | undefined, string];
    const concept = law.concepts.at(-1);
    const inConcept = (): Concept => {
      if (!concept) throw new UserError(`${mark} before the first 题`, `${where}:${index + 1}`);
      return concept;
    };
    const phrase = (implied: boolean): Phrase => {
      const made: Phrase = { text, answers: [] };
      raw.push({ phrase: made, digits: tag, concept: inConcept(), implied });
      return made;
    };
    if (mark === '法') [law.key, law.title] = text.split(' ') as [string, string];
    else if (mark === '景') {
      const view = tag.slice(1);
      if (concept) concept.scenes.push(text);
      else law.scenes.set(view, [...(law.scenes.get(view) ?? []), text]);
    } else if (mark === '总') law.general.push(text);
    else if (mark === '题') {
      const [key = '', flag] = text.split(' ');
      const view = tag.slice(1);
      const takesProcedure = flag !== '-';
      law.concepts.push({
        key,
        view,
        takesProcedure,
        scenes: [],
        articles: [],
        events: [],
        facts: [],
        layAsks: [],
        termAsks: [],
      });
    } else if (mark === '条') inConcept().articles.push(text);
    else if (mark === '事') inConcept().events.push(phrase(false));
    else if (mark === '补') inConcept().facts.push(text);
    else if (mark === '问') inConcept().layAsks.push(text);
    else inConcept().termAsks.push(phrase(true));
  });
  for (const { phrase, digits, concept, implied } of raw) {
    const all = implied ? [] : concept.articles.map((_, i) => i);
    phrase.answers = digits ? [...digits].map((d) => Number(d) - 1) : all;
    if (phrase.answers.some((i) => !concept.articles[i]))
      throw new UserError(`no such article: ${digits} of ${concept.key}`, where);
  }
  for (const concept of law.concepts)
    if (concept.scenes.length === 0) concept.scenes = law.scenes.get(concept.view) ?? [];
  return law;
}
