/**
 * Which character n-grams of a text behave like words: the unsupervised criteria of new-word discovery,
 * cohesion (pointwise mutual information over the weakest split) and freedom (entropy of the neighbouring
 * characters on the poorer side).
 *
 * N-grams are counted level by level and only where both (n−1)-grams inside are frequent, as in Apriori
 * (Agrawal & Srikant 1994). A level identifies an n-gram by one number, id of its prefix × alphabet + last
 * character, which stays below 2^53; sorting an array of those numbers counts them, so no table of strings
 * is ever built: eight million characters take seconds and a few hundred megabytes.
 */

/** All must hold. */
export interface NgramCriteria {
  /** Least number of occurrences in the corpus. */
  minCount: number;
  /** Pointwise mutual information over the weakest split exceeds this, nats. */
  minPmi: number;
  /** Entropy of the neighbours on the poorer side exceeds this, nats. */
  minEntropy: number;
  /** Least share of the occurrences that are pieces of the best segmentation (segment.ts), [0, 1]. */
  minPieceShare: number;
  /** Longest word, characters. */
  maxLength: number;
}

/** One level: the frequent n-grams of one length. */
interface Level {
  length: number;
  /** For every text position the id of the n-gram that starts there, or −1. */
  ids: Int32Array;
  /** Occurrences by id. */
  counts: Int32Array;
  /** Position of the first occurrence by id. */
  first: Int32Array;
}

/** The n-grams of one length that pass: `ids` as in a level, with −1 where the n-gram failed. */
export interface WordLevel {
  length: number;
  ids: Int32Array;
  /** Occurrences by id. */
  counts: Int32Array;
  /** Position of the first occurrence by id, −1 for an id that failed. */
  first: Int32Array;
}

/**
 * `codes`: one number a character, 0 for what no word may contain (punctuation, the gap between texts),
 * otherwise 1 … alphabet − 1. Gives, for every length from 2 to `maxLength`, the n-grams that pass on count,
 * PMI and entropy.
 */
export function findWords(codes: Int32Array, alphabet: number, criteria: NgramCriteria): WordLevel[] {
  const levels = [characterLevel(codes, alphabet)];
  const words: WordLevel[] = [];
  let total = 0;
  for (const code of codes) if (code > 0) total++;
  for (let length = 2; length <= criteria.maxLength; length++) {
    const level = nextLevel(levels[length - 2]!, codes, alphabet, criteria.minCount);
    levels.push(level);
    const passes = new Uint8Array(level.counts.length);
    for (let id = 0; id < passes.length; id++) {
      passes[id] = weakestPmi(levels, level, id, total) > criteria.minPmi ? 1 : 0;
    }
    for (const side of [-1, length]) {
      const entropy = neighbourEntropy(level, codes, alphabet, side, passes);
      for (let id = 0; id < passes.length; id++) if (entropy[id]! <= criteria.minEntropy) passes[id] = 0;
    }
    words.push({
      length,
      ids: level.ids.map((id) => (id >= 0 && passes[id] === 1 ? id : -1)),
      counts: level.counts,
      first: level.first.map((position, id) => (passes[id] === 1 ? position : -1)),
    });
  }
  return words;
}

function characterLevel(codes: Int32Array, alphabet: number): Level {
  const counts = new Int32Array(alphabet);
  const first = new Int32Array(alphabet).fill(-1);
  const ids = new Int32Array(codes.length);
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    ids[i] = code > 0 ? code : -1;
    if (code === 0) continue;
    if (counts[code]!++ === 0) first[code] = i;
  }
  return { length: 1, ids, counts, first };
}

function nextLevel(previous: Level, codes: Int32Array, alphabet: number, minCount: number): Level {
  const length = previous.length + 1;
  const before = previous.ids;
  const keyAt = (i: number): number =>
    before[i]! >= 0 && before[i + 1]! >= 0 ? before[i]! * alphabet + codes[i + length - 1]! : -1;
  const end = Math.max(0, codes.length - length + 1);
  let size = 0;
  for (let i = 0; i < end; i++) if (keyAt(i) >= 0) size++;
  const sorted = new Float64Array(size);
  for (let i = 0, at = 0; i < end; i++) {
    const key = keyAt(i);
    if (key >= 0) sorted[at++] = key;
  }
  sorted.sort();
  // Runs of at least minCount stay; the array is compacted in place.
  const runs: number[] = [];
  let kept = 0;
  for (let start = 0; start < size; ) {
    let stop = start + 1;
    while (stop < size && sorted[stop] === sorted[start]) stop++;
    if (stop - start >= minCount) {
      sorted[kept++] = sorted[start]!;
      runs.push(stop - start);
    }
    start = stop;
  }
  const keys = sorted.subarray(0, kept);
  const first = new Int32Array(kept).fill(-1);
  const ids = new Int32Array(codes.length).fill(-1);
  for (let i = 0; i < end; i++) {
    const key = keyAt(i);
    const id = key < 0 ? -1 : indexIn(keys, key);
    ids[i] = id;
    if (id >= 0 && first[id]! < 0) first[id] = i;
  }
  return { length, ids, counts: Int32Array.from(runs), first };
}

/** Index of `key` in the ascending `keys`, −1 when absent. */
function indexIn(keys: Float64Array, key: number): number {
  let low = 0;
  let high = keys.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const value = keys[middle]!;
    if (value === key) return middle;
    if (value < key) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

/** ln p(w) / (p(a) p(b)), the least over the splits w = ab. Every part is frequent, so every count is known. */
function weakestPmi(levels: readonly Level[], level: Level, id: number, total: number): number {
  const at = level.first[id]!;
  const countOf = (length: number, position: number): number => {
    const part = levels[length - 1]!;
    return part.counts[part.ids[position]!]!;
  };
  let weakest = Infinity;
  for (let cut = 1; cut < level.length; cut++) {
    const parts = countOf(cut, at) * countOf(level.length - cut, at + cut);
    weakest = Math.min(weakest, Math.log((level.counts[id]! * total) / parts));
  }
  return weakest;
}

/**
 * Entropy in nats of the character at `offset` from the start, for the ids in `wanted`. Every boundary
 * (punctuation, end of text) counts as a neighbour of its own: a word may well stand alone.
 */
function neighbourEntropy(
  level: Level,
  codes: Int32Array,
  alphabet: number,
  offset: number,
  wanted: Uint8Array,
): Float64Array {
  const { ids, counts } = level;
  const keyAt = (i: number): number => {
    const id = ids[i]!;
    if (id < 0 || wanted[id] === 0) return -1;
    const neighbour = codes[i + offset] ?? 0;
    return neighbour === 0 ? -1 : id * alphabet + neighbour;
  };
  let size = 0;
  for (let i = 0; i < ids.length; i++) if (keyAt(i) >= 0) size++;
  const sorted = new Float64Array(size);
  for (let i = 0, at = 0; i < ids.length; i++) {
    const key = keyAt(i);
    if (key >= 0) sorted[at++] = key;
  }
  sorted.sort();
  const entropy = Float64Array.from(counts, Math.log);
  for (let start = 0; start < size; ) {
    let stop = start + 1;
    while (stop < size && sorted[stop] === sorted[start]) stop++;
    const id = Math.floor(sorted[start]! / alphabet);
    const run = stop - start;
    entropy[id] = entropy[id]! - (run * Math.log(run)) / counts[id]!;
    start = stop;
  }
  return entropy;
}
