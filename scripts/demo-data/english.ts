/**
 * The English part, written by hand: it shows the format in another language and is too small to learn
 * from. Lines of english.txt: `L key Title` a law, `A text` an article, `T 1 2 | question` a training
 * question answered by articles 1 and 2 of the law above, `V …` one for validation.
 */
import { UserError } from '../../src/base/errors.ts';
import type { StatuteRow } from './build.ts';

export interface EnglishPart {
  statutes: StatuteRow[];
  train: { text: string; gold: string[] }[];
  validation: { text: string; gold: string[] }[];
}

/** Parses english.txt. Throws `UserError` on a malformed line or a number without an article. */
export function parseEnglish(source: string): EnglishPart {
  const part: EnglishPart = { statutes: [], train: [], validation: [] };
  let law = { key: '', title: '', first: 0 };
  source.split('\n').forEach((line, index) => {
    if (line === '') return;
    const at = `english.txt:${index + 1}`;
    const [, mark, rest = ''] = /^([LATV]) (.+)$/.exec(line) ?? [];
    if (mark === 'L') {
      const [key = '', ...title] = rest.split(' ');
      law = { key, title: title.join(' '), first: part.statutes.length };
    } else if (mark === 'A') {
      const n = part.statutes.length - law.first + 1;
      const id = `en-${law.key}-${String(n).padStart(2, '0')}`;
      part.statutes.push({
        id,
        title: `${law.title}, s. ${n}`,
        law: law.title,
        article: `s. ${n}`,
        text: rest,
      });
    } else if (mark === 'T' || mark === 'V') {
      const [numbers = '', text = ''] = rest.split(' | ');
      const gold = numbers.split(' ').map((n) => part.statutes[law.first + Number(n) - 1]?.id);
      if (gold.includes(undefined)) throw new UserError(`no article ${numbers} above`, at);
      part[mark === 'T' ? 'train' : 'validation'].push({ text, gold: gold as string[] });
    } else throw new UserError(`no such line: ${line}`, at);
  });
  return part;
}
