/**
 * Which replica gets a call. The rule: a prompt has a home replica, the same for as long as the rotation is
 * the same (rendezvous hashing of its ids), and goes there unless the home has more calls under way than a
 * quarter above the least busy one's, and 8 more: the members of a group share their first prompts, which a
 * prefix cache then computes once. Otherwise the least busy one gets it.
 */

export interface Candidate {
  name: string;
  /** Calls under way. */
  inFlight: number;
}

const SLACK = 8;

/** The replica for a prompt; undefined where there is none. Pure. */
export function chooseReplica<T extends Candidate>(
  candidates: readonly T[],
  promptIds: readonly number[],
): T | undefined {
  const [first, ...rest] = candidates;
  if (!first || rest.length === 0) return first;
  const least = candidates.reduce((a, b) => (b.inFlight < a.inFlight ? b : a));
  const prompt = hash(promptIds, 0x811c9dc5);
  const weight = ({ name }: T): number =>
    hash(
      Array.from(name, (char) => char.codePointAt(0)!),
      prompt,
    );
  const home = candidates.reduce((a, b) => (weight(b) > weight(a) ? b : a));
  return home.inFlight <= least.inFlight * 1.25 + SLACK ? home : least;
}

/** FNV-1a over 32-bit values, mixed at the end, so that near inputs give far results. */
function hash(values: readonly number[], start: number): number {
  let h = start;
  for (const value of values) h = Math.imul(h ^ value, 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
