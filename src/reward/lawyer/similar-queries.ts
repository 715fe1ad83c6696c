import { characterPairs, lettersAndDigits } from '../../base/characters.ts';

/** Likeness of two queries in [0, 1]: Dice coefficient of their pairs of characters, spacing and punctuation aside. */
export function likeness(a: string, b: string): number {
  const [bareA, bareB] = [lettersAndDigits(a), lettersAndDigits(b)];
  const [left, right] = [new Set(characterPairs(bareA)), new Set(characterPairs(bareB))];
  if (left.size === 0 || right.size === 0) return bareA === bareB ? 1 : 0;
  const both = [...left].filter((pair) => right.has(pair)).length;
  return (2 * both) / (left.size + right.size);
}
