import { firstCharacters } from '../../base/characters.ts';
import type { RewriterRole } from './agents.ts';

export type QueriesFailure =
  | 'cut by the length limit'
  | 'empty'
  | 'more than one line'
  | 'not JSON'
  | 'not an array of strings'
  | 'no sub-query'
  | 'too many sub-queries';

/** `queries`: at least one, trimmed, not empty, each different. */
export type ParsedQueries = { kind: 'ok'; queries: string[] } | { kind: 'failed'; reason: QueriesFailure };

export interface QueryLimits {
  maxDecomposed: number;
  /** Code points; longer queries are cut. */
  maxQueryChars: number;
}

/** Reads a rewriter's output: one line of text, or the decomposer's JSON array of 1 … `maxDecomposed` strings. */
export function parseQueries(role: RewriterRole, text: string, limits: QueryLimits): ParsedQueries {
  const trimmed = text.trim();
  if (trimmed === '') return failed('empty');
  if (role === 'decompose') return parseSubQueries(trimmed, limits);
  if (/[\r\n\u2028\u2029]/.test(trimmed)) return failed('more than one line');
  return { kind: 'ok', queries: [cap(trimmed, limits.maxQueryChars)] };
}

function parseSubQueries(text: string, limits: QueryLimits): ParsedQueries {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return failed('not JSON');
  }
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    return failed('not an array of strings');
  if (value.length === 0) return failed('no sub-query');
  const queries = [...new Set(value.map((item) => cap(item.trim(), limits.maxQueryChars)))];
  if (queries.includes('')) return failed('empty');
  if (queries.length > limits.maxDecomposed) return failed('too many sub-queries');
  return { kind: 'ok', queries };
}

function failed(reason: QueriesFailure): ParsedQueries {
  return { kind: 'failed', reason };
}

const cap = (text: string, maxChars: number): string => firstCharacters(text, maxChars).trimEnd();
