import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { messageOf, UserError } from './errors.ts';

/** More problems than these say nothing more. */
const MAX_PROBLEMS = 5;

/**
 * The JSON of a file, checked by `schema`. UserError with `hint` when it cannot be read, is no JSON, or does
 * not fit: each problem with its path.
 */
export function readJsonFile<T>(file: string, schema: z.ZodType<T>, hint: string): T {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UserError(`cannot be read as JSON (${messageOf(error)})`, file, hint);
  }
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  throw new UserError(problemsOf(result.error), file, hint);
}

/** `path: what is wrong` for the first problems. */
export function problemsOf({ issues }: z.ZodError): string {
  const told = issues.map(({ path, message }) => `${path.join('.') || '(top)'}: ${message}`);
  return told.slice(0, MAX_PROBLEMS).join('; ');
}
