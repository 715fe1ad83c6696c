/**
 * Contamination: training text that holds a test text, or much of one. Test texts are known by their n-grams of
 * characters (Legal-R1's code compares 20-grams; there for one of fourteen tasks, here for every source). A single
 * shared n-gram says little in law, where whole sentences are formulas; so what counts is the share of a test
 * text's n-grams that one training text holds.
 */

export interface Fingerprints {
  /** Characters of an n-gram. */
  n: number;
  /** By n-gram the numbers of the test texts that hold it. */
  holders: Map<string, number[]>;
  /** Distinct n-grams of each test text. */
  sizes: number[];
  /** Lengths below n of test texts that are an n-gram by themselves. */
  shortLengths: number[];
}

/** Composed letters and digits that are seen, lower case: what is left when spacing and punctuation are changed. */
const bare = (text: string): string[] => [
  ...text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]|\p{Default_Ignorable_Code_Point}/gu, ''),
];

/** The n-grams of a text; a text that is shorter is one by itself. */
function ngramsOf(text: string, n: number): Set<string> {
  const characters = bare(text);
  if (characters.length === 0) return new Set();
  if (characters.length <= n) return new Set([characters.join('')]);
  return new Set(
    Array.from({ length: characters.length - n + 1 }, (_, i) => characters.slice(i, i + n).join('')),
  );
}

/** Fingerprints of the test texts; `n` ≥ 1. */
export function fingerprint(tests: readonly string[], n: number): Fingerprints {
  const holders = new Map<string, number[]>();
  const sizes = tests.map((text, t) => {
    const grams = ngramsOf(text, n);
    for (const gram of grams) {
      const known = holders.get(gram);
      if (known) known.push(t);
      else holders.set(gram, [t]);
    }
    return grams.size;
  });
  const lengths = [...holders.keys()].map((gram) => [...gram].length);
  return { n, holders, sizes, shortLengths: [...new Set(lengths)].filter((length) => length < n) };
}

/** The test text that `text` holds most of, and the share of its n-grams, in (0, 1]; null where they share none. */
export function worstOverlap(text: string, prints: Fingerprints): { test: number; share: number } | null {
  const { holders, sizes } = prints;
  const found = new Map<number, number>();
  for (const gram of gramsToLookUp(text, prints))
    for (const test of holders.get(gram) ?? []) found.set(test, (found.get(test) ?? 0) + 1);
  let worst: { test: number; share: number } | null = null;
  for (const [test, count] of found) {
    const share = count / sizes[test]!;
    if (worst === null || share > worst.share) worst = { test, share };
  }
  return worst;
}

/** The n-grams of `text`, and its shorter pieces that are the whole of a short test text. */
function gramsToLookUp(text: string, { n, holders, shortLengths }: Fingerprints): Set<string> {
  const grams = ngramsOf(text, n);
  const characters = bare(text);
  for (const length of shortLengths)
    for (let i = 0; i + length <= characters.length; i++) {
      const piece = characters.slice(i, i + length).join('');
      if (holders.has(piece)) grams.add(piece);
    }
  return grams;
}
