/**
 * Named, seeded random streams. A stream is derived from the run's seed and a path of names
 * (`stream(seed, 'sample', step, queryId, member)`), so what one part draws never shifts another's draws,
 * and a resumed run continues without stored generator state.
 *
 * Hash: FNV-1a over the names, finished by a 32-bit mixer; generator: sfc32 (Chris Doty-Humphrey,
 * PractRand), 128-bit state.
 */
export interface Random {
  /** Uniform in [0, 1), 32 bits. */
  next(): number;
  /** Uniform integer in [0, n). */
  int(n: number): number;
  /** Standard normal (Box–Muller). */
  normal(): number;
  /** A new array, shuffled (Fisher–Yates). */
  shuffle<T>(items: readonly T[]): T[];
}

function fnv1a(text: string, hash: number): number {
  let h = hash;
  for (let i = 0; i < text.length; i++) {
    h ^= text.charCodeAt(i);
    h = Math.imul(h, 0x01000193);
  }
  return h >>> 0;
}

function mix(value: number): number {
  let h = value >>> 0;
  h = Math.imul(h ^ (h >>> 16), 0x21f0aaad);
  h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
  return (h ^ (h >>> 15)) >>> 0;
}

/** An integer in [0, 2^31) that names the stream: what a request sends as its `seed`. */
export function streamSeed(seed: number, ...path: (string | number)[]): number {
  return mix(fnv1a(`${seed}\u0000${path.join('\u0000')}`, 0x811c9dc5)) & 0x7fffffff;
}

/** The stream named by `seed` and `path`. The same arguments give the same draws, on any machine. */
export function stream(seed: number, ...path: (string | number)[]): Random {
  const name = `${seed}\u0000${path.join('\u0000')}`;
  let a = mix(fnv1a(name, 0x811c9dc5));
  let b = mix(fnv1a(name, 0x01234567));
  let c = mix(fnv1a(name, 0x89abcdef));
  let counter = 1;
  const nextInt = (): number => {
    const t = (((a + b) >>> 0) + counter) >>> 0;
    counter = (counter + 1) >>> 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) >>> 0;
    c = ((c << 21) | (c >>> 11)) >>> 0;
    c = (c + t) >>> 0;
    return t;
  };
  for (let i = 0; i < 12; i++) nextInt();
  const next = (): number => nextInt() / 4294967296;
  return {
    next,
    int: (n) => Math.floor(next() * n),
    normal: () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()),
    shuffle: (items) => {
      const out = [...items];
      for (let i = out.length - 1; i > 0; i--) {
        const j = Math.floor(next() * (i + 1));
        [out[i], out[j]] = [out[j]!, out[i]!];
      }
      return out;
    },
  };
}
