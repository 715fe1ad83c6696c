/**
 * Terms: what BM25 counts. Chinese and kana text gives every character and every pair of neighbours
 * within an unbroken run (no word segmenter, hence no dictionary to disagree with); any other script and
 * digits give lower-cased words without a plural s. Punctuation and space end a run.
 */

const SEPARATOR = 0;
const IDEOGRAPH = 1;
const WORD = 2;

const ideograph = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;
const wordLetter = /[\p{L}\p{N}\p{M}]/u;

function classOf(character: string): number {
  if (ideograph.test(character)) return IDEOGRAPH;
  return wordLetter.test(character) ? WORD : SEPARATOR;
}

let classes: Uint8Array | undefined;

/** The class of every code unit, computed once; a lone surrogate is a separator. */
function unitClasses(): Uint8Array {
  if (!classes) {
    classes = new Uint8Array(65536);
    for (let unit = 0; unit < 65536; unit++) classes[unit] = classOf(String.fromCharCode(unit));
  }
  return classes;
}

/** Receives terms in order of the text: a gram by its key (see `gramOfKey`), a word as it is. */
export interface TermVisitor {
  gram(key: number): void;
  word(word: string): void;
}

/**
 * Visits the terms of a text, repeats included. A gram's key is a 32-bit number: the code unit of a
 * single character, or first × 65536 + second for a pair.
 */
export function visitTerms(text: string, visitor: TermVisitor): void {
  const table = unitClasses();
  const folded = text.normalize('NFKC').toLowerCase();
  const end = folded.length;
  let previous = 0;
  let wordStart = -1;
  for (let i = 0; i < end; i++) {
    const unit = folded.charCodeAt(i);
    let kind = table[unit]!;
    let width = 1;
    if (folded.codePointAt(i)! > 0xffff) {
      // Beyond the basic plane: a rare ideograph is a term of its own.
      width = 2;
      const character = folded.slice(i, i + 2);
      kind = classOf(character);
      if (kind === IDEOGRAPH) {
        if (wordStart >= 0) visitor.word(stem(folded.slice(wordStart, i)));
        visitor.word(character);
        wordStart = -1;
        kind = SEPARATOR;
      }
    }
    if (kind === WORD) {
      if (wordStart < 0) wordStart = i;
    } else if (wordStart >= 0) {
      visitor.word(stem(folded.slice(wordStart, i)));
      wordStart = -1;
    }
    if (kind === IDEOGRAPH) {
      visitor.gram(unit);
      if (previous > 0) visitor.gram(previous * 65536 + unit);
      previous = unit;
    } else previous = 0;
    i += width - 1;
  }
  if (wordStart >= 0) visitor.word(stem(folded.slice(wordStart)));
}

/**
 * Takes an English plural s off, as Harman's S stemmer does (JASIS 42(1), 1991): -ies → -y except after
 * a or e, -es → -e except after a, e or o, -s → nothing except after u or s. Short words stay.
 */
function stem(word: string): string {
  if (word.length < 4 || !word.endsWith('s')) return word;
  const before = (n: number) => word[word.length - n] ?? '';
  if (word.endsWith('ies') && !'ae'.includes(before(4))) return `${word.slice(0, -3)}y`;
  if (word.endsWith('es') && !'aeo'.includes(before(3))) return word.slice(0, -1);
  return 'us'.includes(before(2)) || word.endsWith('es') ? word : word.slice(0, -1);
}

/** A gram's text. */
export function gramOfKey(key: number): string {
  return key < 65536 ? String.fromCharCode(key) : String.fromCharCode(key >>> 16, key & 0xffff);
}

/** The terms of a text in order, repeats included: a run 甲乙丙 gives 甲, 乙, 甲乙, 丙, 乙丙. */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  visitTerms(text, { gram: (key) => terms.push(gramOfKey(key)), word: (word) => terms.push(word) });
  return terms;
}

/**
 * The distinct terms that carry meaning by themselves: pairs of characters, words, and a character that
 * is in no pair. The characters of the pairs are left out (nearly every character of any sentence is
 * known to any corpus) and so are plain numbers.
 */
export function telltaleTerms(text: string): string[] {
  const telling = new Set<string>();
  const singles = new Set<number>();
  const paired = new Set<number>();
  visitTerms(text, {
    gram(key) {
      if (key < 65536) singles.add(key);
      else {
        paired.add(key >>> 16).add(key & 0xffff);
        telling.add(gramOfKey(key));
      }
    },
    word(word) {
      if (!/^\p{N}+$/u.test(word)) telling.add(word);
    },
  });
  for (const key of singles) if (!paired.has(key)) telling.add(gramOfKey(key));
  return [...telling];
}
