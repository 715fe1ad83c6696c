import type { WordLevel } from './ngrams.ts';

/**
 * How often each word is a piece of the best segmentation of the text, under independent words
 * (the Viterbi step of a unigram language model). A string that only looks like a word because real words
 * meet in it, such as 人履行债务 in 债务人履行债务, loses its occurrences to them.
 *
 * `codes` as for `findWords`; a character 0 ends a piece of text. Gives, for each level, pieces by id.
 */
export function countSegments(codes: Int32Array, levels: readonly WordLevel[], rounds = 2): Float64Array[] {
  const characters = new Float64Array(codes.reduce((max, code) => Math.max(max, code), 0) + 1);
  let total = 0;
  for (const code of codes) {
    if (code === 0) continue;
    characters[code] = characters[code]! + 1;
    total++;
  }
  const characterCost = characters.map((count) => Math.log(total / Math.max(count, 1)));
  let pieces: Float64Array[] = levels.map((level) => Float64Array.from(level.counts));
  for (let round = 0; round < rounds; round++) {
    // A word that lost every occurrence keeps half of one, so its cost stays finite.
    const costs = pieces.map((counts) => counts.map((count) => Math.log(total / Math.max(count, 0.5))));
    pieces = segmentOnce(codes, levels, characterCost, costs);
  }
  return pieces;
}

function segmentOnce(
  codes: Int32Array,
  levels: readonly WordLevel[],
  characterCost: Float64Array,
  costs: readonly Float64Array[],
): Float64Array[] {
  const pieces = levels.map((level) => new Float64Array(level.counts.length));
  // cost[i]: least cost of what lies from i to the end of the piece of text; taken[i]: level of its first word.
  const cost = new Float64Array(codes.length + 1);
  const taken = new Int8Array(codes.length + 1);
  for (let i = codes.length - 1; i >= 0; i--) {
    taken[i] = -1;
    if (codes[i] === 0) continue;
    let best = characterCost[codes[i]!]! + cost[i + 1]!;
    for (let l = 0; l < levels.length; l++) {
      const id = levels[l]!.ids[i]!;
      if (id < 0) continue;
      const candidate = costs[l]![id]! + cost[i + levels[l]!.length]!;
      if (candidate < best) {
        best = candidate;
        taken[i] = l;
      }
    }
    cost[i] = best;
  }
  for (let i = 0; i < codes.length; ) {
    const l = taken[i]!;
    if (l < 0) {
      i++;
      continue;
    }
    const level = levels[l]!;
    pieces[l]![level.ids[i]!]!++;
    i += level.length;
  }
  return pieces;
}
