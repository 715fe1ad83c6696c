/** Terms to dense integers, fast enough for sixteen million term occurrences in about a second. */
import { visitTerms } from './terms.ts';

/** The terms of a corpus, numbered from 0 in order of first appearance. */
export interface Vocabulary {
  /** Number of terms. */
  readonly size: number;
  /** The numbers of a text's terms in order, repeats included; a term that is not known is -1. */
  numbersOf(text: string): number[];
  /** The number of one term, -1 if it is not known. */
  numberOf(term: string): number;
}

/** A vocabulary that still grows: every visited term gets a number. */
export interface GrowingVocabulary extends Vocabulary {
  visit(text: string, onTerm: (number: number) => void): void;
}

/**
 * Grams live in an open-addressing table of 32-bit keys (a `Map` of two-character strings is four times
 * slower to fill), words in a `Map`.
 */
export function createVocabulary(): GrowingVocabulary {
  let capacity = 1 << 16;
  let keys = new Uint32Array(capacity);
  let numbers = new Int32Array(capacity);
  let grams = 0;
  let size = 0;
  const words = new Map<string, number>();

  /** The slot that holds the key, or the free one where it belongs. No gram has key 0. */
  const slotOf = (key: number): number => {
    let slot = (Math.imul(key, 0x9e3779b1) >>> 7) & (capacity - 1);
    while (keys[slot] !== 0 && keys[slot] !== key) slot = (slot + 1) & (capacity - 1);
    return slot;
  };
  const grow = (): void => {
    const oldKeys = keys;
    const oldNumbers = numbers;
    capacity *= 2;
    keys = new Uint32Array(capacity);
    numbers = new Int32Array(capacity);
    for (let i = 0; i < oldKeys.length; i++) {
      if (oldKeys[i] === 0) continue;
      const slot = slotOf(oldKeys[i]!);
      keys[slot] = oldKeys[i]!;
      numbers[slot] = oldNumbers[i]!;
    }
  };
  const gramNumber = (key: number): number => {
    const slot = slotOf(key);
    return keys[slot] === 0 ? -1 : numbers[slot]!;
  };
  const wordNumber = (word: string): number => words.get(word) ?? -1;
  const addGram = (key: number): number => {
    const slot = slotOf(key);
    if (keys[slot] !== 0) return numbers[slot]!;
    keys[slot] = key;
    numbers[slot] = size++;
    if (++grams * 2 > capacity) grow();
    return size - 1;
  };
  const addWord = (word: string): number => {
    const known = words.get(word);
    if (known !== undefined) return known;
    words.set(word, size);
    return size++;
  };

  return {
    get size() {
      return size;
    },
    visit(text, onTerm) {
      visitTerms(text, { gram: (key) => onTerm(addGram(key)), word: (word) => onTerm(addWord(word)) });
    },
    numbersOf(text) {
      const found: number[] = [];
      visitTerms(text, {
        gram: (key) => found.push(gramNumber(key)),
        word: (word) => found.push(wordNumber(word)),
      });
      return found;
    },
    numberOf(term) {
      const word = words.get(term);
      if (word !== undefined || term.length === 0 || term.length > 2) return word ?? -1;
      const first = term.charCodeAt(0);
      return gramNumber(term.length === 1 ? first : first * 65536 + term.charCodeAt(1));
    },
  };
}
