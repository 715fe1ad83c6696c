/** What the configuration's schema allows at a path, in words: read from the schema itself. */
import { z } from 'zod';
import { configSchema } from './schema.ts';

/** The part of JSON Schema that our schema becomes. */
export interface SchemaNode {
  type?: string;
  properties?: Record<string, SchemaNode>;
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
  default?: unknown;
}

/** The configuration's schema, as a tree. */
const schemaTree = z.toJSONSchema(configSchema, { io: 'input' }) as SchemaNode;

/** The node at a path; undefined where the schema knows no such path. Array items: their index. */
export function nodeAt(path: readonly PropertyKey[]): SchemaNode | undefined {
  let node: SchemaNode | undefined = schemaTree;
  for (const key of path) {
    const options: SchemaNode[] = node?.anyOf ?? (node ? [node] : []);
    node = undefined;
    for (const option of options) {
      if (typeof key === 'number') node ??= option.prefixItems?.[key] ?? option.items;
      else if (option.properties && Object.hasOwn(option.properties, key))
        node ??= option.properties[String(key)];
    }
  }
  return node;
}

/** In words: `a whole number, at least 1`, `one of recall, mrr, ndcg`, `true or false`. */
export function describeNode(node: SchemaNode): string {
  if (node.anyOf) return node.anyOf.map(describeNode).join(' or ');
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  if (node.const !== undefined) return `only ${node.const}`;
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
      return `a section with the keys ${Object.keys(node.properties ?? {}).join(', ')}`;
    default:
      return 'a value';
  }
}

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
  if (!node.properties || typeof given !== 'object' || given === null || Array.isArray(given)) return given;
  const filled: Record<string, unknown> = { ...given };
  for (const [key, child] of Object.entries(node.properties)) {
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
  return Object.entries(node.properties ?? {}).flatMap(([key, child]) => [
    prefix + key,
    ...knownPaths(child, `${prefix}${key}.`),
  ]);
}
