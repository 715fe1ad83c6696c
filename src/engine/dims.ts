/**
 * Symbolic dimensions. A dimension is a number, or a product of named symbols written canonically:
 * coefficient first, then symbols in order, joined by `*` (`'2*B*T'`). Equal dimensions are equal
 * strings, so `===` compares. Products are all a decoder needs; sums do not exist here.
 */
export type Dim = number | string;

interface Monomial {
  factor: number;
  symbols: string[];
}

/** The parts of a dimension: numeric factor and symbols (repeated ones repeated). */
export function dimParts(dim: Dim): Monomial {
  if (typeof dim === 'number') return { factor: dim, symbols: [] };
  const parts = dim.split('*');
  const factor = Number(parts[0]);
  return Number.isNaN(factor) ? { factor: 1, symbols: parts } : { factor, symbols: parts.slice(1) };
}

function fromParts({ factor, symbols }: Monomial): Dim {
  if (symbols.length === 0 || factor === 0) return factor;
  return [...(factor === 1 ? [] : [String(factor)]), ...symbols].join('*');
}

/** Product of dimensions; 1 for none. */
export function dimProduct(dims: readonly Dim[]): Dim {
  const out: Monomial = { factor: 1, symbols: [] };
  for (const dim of dims) {
    const parts = dimParts(dim);
    out.factor *= parts.factor;
    out.symbols.push(...parts.symbols);
  }
  out.symbols.sort();
  return fromParts(out);
}

/** The value of a dimension, given the values of its symbols. Throws on an unknown symbol. */
export function dimValue(dim: Dim, symbols: ReadonlyMap<string, number>): number {
  const parts = dimParts(dim);
  return parts.symbols.reduce((product, name) => {
    const value = symbols.get(name);
    if (value === undefined) throw new Error(`dimension '${name}' has no value`);
    return product * value;
  }, parts.factor);
}

/** NumPy broadcasting of two shapes; throws where two dimensions differ and neither is 1. */
export function broadcastShape(a: readonly Dim[], b: readonly Dim[]): Dim[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const x = a[i - rank + a.length] ?? 1;
    const y = b[i - rank + b.length] ?? 1;
    if (x === y || y === 1) return x;
    if (x === 1) return y;
    throw new Error(`shapes [${a}] and [${b}] do not broadcast`);
  });
}
