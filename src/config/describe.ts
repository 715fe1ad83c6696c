/** What the configuration's schema allows at a path, in words: read from the schema itself. */
import { z } from 'zod';
import { configSchema } from './schema.ts';

/** The part of JSON Schema that our schema becomes. */
export interface SchemaNode {
  /** Several where they are plain and without bounds. */
  type?: string | string[];
  properties?: Record<string, SchemaNode>;
  /** Of a section with keys of the user's own: what each may be. */
  additionalProperties?: SchemaNode | boolean;
  required?: string[];
  enum?: (string | number)[];
  const?: string | number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  minItems?: number;
  items?: SchemaNode;
  prefixItems?: SchemaNode[];
  anyOf?: SchemaNode[];
  /** Sections that their `kind` tells apart. */
  oneOf?: SchemaNode[];
  default?: unknown;
}

/** The configuration's schema, as a tree. */
const schemaTree = z.toJSONSchema(configSchema, { io: 'input' }) as SchemaNode;

/** The nodes that a value may be: the alternatives of a union, or the one. */
const optionsOf = (node: SchemaNode | undefined): SchemaNode[] =>
  node ? (node.anyOf ?? node.oneOf ?? [node]) : [];

/** The node at a path; undefined where the schema knows no such path. Array items: their index. */
export function nodeAt(path: readonly PropertyKey[]): SchemaNode | undefined {
  let node: SchemaNode | undefined = schemaTree;
  for (const key of path) {
    const found: SchemaNode[] = optionsOf(node)
      .map((option) => childOf(option, key))
      .filter((child) => child !== undefined);
    const kinds = found.map((child) => child.const).filter((kind) => kind !== undefined);
    node = found.length > 1 && kinds.length === found.length ? { enum: kinds } : found[0];
  }
  return node;
}

function childOf(node: SchemaNode, key: PropertyKey): SchemaNode | undefined {
  if (typeof key === 'number') return node.prefixItems?.[key] ?? node.items;
  const name = String(key);
  if (node.properties && Object.hasOwn(node.properties, name)) return node.properties[name];
  return typeof node.additionalProperties === 'object' ? node.additionalProperties : undefined;
}

/** The section that `value` is, where its `kind` tells sections apart; a kind left out is the default one. */
function sectionOf(node: SchemaNode, value: unknown): SchemaNode {
  const kind = (value as { kind?: unknown } | null | undefined)?.kind;
  const fits = ({ properties }: SchemaNode) =>
    kind === undefined ? properties?.kind?.default !== undefined : properties?.kind?.const === kind;
  return node.oneOf?.find(fits) ?? node;
}

/** Keys of the section at `path` that may stand in `value`, and the kinds of section that know `key`. */
export function sectionKeys(
  path: readonly PropertyKey[],
  value: unknown,
  key: string,
): { known: string[]; kinds: (string | number)[] } {
  const node = nodeAt(path) ?? {};
  const others = (node.oneOf ?? []).filter((option) => childOf(option, key));
  return {
    known: Object.keys(sectionOf(node, value).properties ?? {}),
    kinds: others.flatMap(({ properties }) => properties?.kind?.const ?? []),
  };
}

/** In words: `a whole number, at least 1`, `one of recall, mrr, ndcg`, `true or false`. */
export function describeNode(node: SchemaNode): string {
  if (node.anyOf) return node.anyOf.map(describeNode).join(' or ');
  if (node.oneOf) return `a section with the keys ${[...new Set(node.oneOf.flatMap(keysOf))].join(', ')}`;
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  if (node.const !== undefined) return `only ${node.const}`;
  if (Array.isArray(node.type)) return node.type.map((type) => describeNode({ type })).join(' or ');
  switch (node.type) {
    case 'string':
      return node.minLength ? 'text, not empty' : 'text';
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    case 'integer':
      return ['a whole number', ...bounds(node)].join(', ');
    case 'number':
      return ['a number', ...bounds(node)].join(', ');
    case 'array':
      return describeArray(node);
    case 'object':
      if (typeof node.additionalProperties === 'object')
        return `a section whose values are ${describeNode(node.additionalProperties)}`;
      return `a section with the keys ${keysOf(node).join(', ')}`;
    default:
      return 'a value';
  }
}

const keysOf = (node: SchemaNode): string[] => Object.keys(node.properties ?? {});

function describeArray(node: SchemaNode): string {
  if (node.prefixItems) {
    const parts = node.prefixItems.map(describeNode);
    return `a list of ${parts.length}: [${parts.join('; ')}]`;
  }
  const least = node.minItems ? `, at least ${node.minItems} of them` : '';
  return `a list${least}, each ${describeNode(node.items ?? {})}`;
}

function bounds(node: SchemaNode): string[] {
  const limit = (value: number | undefined, text: string) =>
    value === undefined || Math.abs(value) === Number.MAX_SAFE_INTEGER ? [] : [`${text} ${value}`];
  return [
    ...limit(node.exclusiveMinimum, 'above'),
    ...limit(node.minimum, 'at least'),
    ...limit(node.exclusiveMaximum, 'below'),
    ...limit(node.maximum, 'at most'),
  ];
}

/** `value` with the schema's defaults put in where a key is absent; wrong values stay as they are. */
export function withDefaults(value: unknown, node: SchemaNode = schemaTree): unknown {
  const given = value === undefined ? structuredClone(node.default) : value;
  const { properties } = sectionOf(node, given);
  if (!properties || typeof given !== 'object' || given === null || Array.isArray(given)) return given;
  const filled: Record<string, unknown> = { ...given };
  for (const [key, child] of Object.entries(properties)) {
    const inner = withDefaults(filled[key], child);
    if (inner !== undefined) filled[key] = inner;
  }
  return filled;
}

/** The known key nearest to `key` by edits, or undefined where none is near enough to be meant. */
export function nearestKey(key: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(key.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(key.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Levenshtein distance: insertions, deletions and substitutions count 1 each. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** Every dotted path of the schema that ends in a value or a section. */
export function knownPaths(node: SchemaNode = schemaTree, prefix = ''): string[] {
  const paths = optionsOf(node).flatMap(({ properties }) =>
    Object.entries(properties ?? {}).flatMap(([key, child]) => [
      prefix + key,
      ...knownPaths(child, `${prefix}${key}.`),
    ]),
  );
  return [...new Set(paths)];
}
