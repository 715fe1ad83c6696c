/** Likeness of two queries in [0, 1]: Dice coefficient of their pairs of characters, spacing and punctuation aside. */
export function likeness(a: string, b: string): number {
  const [left, right] = [pairs(a), pairs(b)];
  if (left.size === 0 || right.size === 0) return bare(a) === bare(b) ? 1 : 0;
  const both = [...left].filter((pair) => right.has(pair)).length;
  return (2 * both) / (left.size + right.size);
}

const bare = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '');

function pairs(text: string): Set<string> {
  const characters = [...bare(text)];
  return new Set(characters.slice(1).map((character, i) => characters[i]! + character));
}
