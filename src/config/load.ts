/** Reads a run's configuration: YAML, then `--set` and `--seed`, then the schema. All mistakes at once. */
import { readFileSync } from 'node:fs';
import { isMap, isPair, LineCounter, type ParsedNode, parseDocument } from 'yaml';
import type { z } from 'zod';
import { messageOf, UserError } from '../base/errors.ts';
import { describeNode, knownPaths, nearestKey, nodeAt, sectionKeys, withDefaults } from './describe.ts';
import { brokenRules, valueAt } from './rules.ts';
import { type Config, configSchema } from './schema.ts';

export interface Overrides {
  /** `path=value` each, the value in YAML; `null` takes an optional key away. Later ones win. */
  set?: readonly string[];
  /** Becomes `run.seed`, after `set`. */
  seed?: number | undefined;
}

/**
 * The resolved configuration of `file`: every default filled in. Relative paths in it are relative to the
 * current folder. A missing or unreadable file, broken YAML, or any number of wrong, missing and unknown
 * keys is one `UserError` with the line, the path, what was given and what is allowed.
 */
export function loadConfig(file: string, overrides: Overrides = {}): Config {
  return parseConfig(readConfigFile(file), file, overrides);
}

/** As `loadConfig`, from YAML text; `name` stands for the file in messages. */
export function parseConfig(text: string, name: string, overrides: Overrides = {}): Config {
  const { tree, lineOf } = readYaml(text, name);
  const mistakes: Mistake[] = [];
  const origins = applyOverrides(tree, overrides, mistakes);
  const place = (path: readonly PropertyKey[]): string => {
    const dotted = path.join('.');
    const origin = origins.find((set) => dotted === set.path || dotted.startsWith(`${set.path}.`));
    return origin?.source ?? lineOf(path);
  };
  const parsed = configSchema.safeParse(tree);
  if (parsed.success && mistakes.length === 0) return parsed.data;
  mistakes.push(...schemaMistakes(tree, parsed.error?.issues ?? []));
  throw configError(name, mistakes, place);
}

interface Mistake {
  path: PropertyKey[];
  what: string;
  /** Where it stands, if that is not the path's place. */
  source?: string;
}

function readConfigFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const hint = 'give the path of a YAML file, such as configs/quickstart.yaml';
    if (code === 'ENOENT' || code === 'ENOTDIR') throw new UserError('no such file', file, hint);
    if (code === 'EISDIR') throw new UserError('is a folder, not a file', file, hint);
    throw new UserError(`cannot be read (${messageOf(error)})`, file, hint);
  }
}

/** The YAML as plain data, and a function from a path to the line where it (or its nearest parent) stands. */
function readYaml(text: string, name: string) {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem) {
    const { line, col } = counter.linePos(problem.pos[0]);
    throw new UserError(`not valid YAML: ${problem.message}`, `${name}:${line}:${col}`, 'correct that line');
  }
  const tree: unknown = document.toJS() ?? {};
  if (typeof tree !== 'object' || tree === null || Array.isArray(tree))
    throw new UserError('must hold keys and values at its top level', name, 'see configs/quickstart.yaml');
  const lineOf = (path: readonly PropertyKey[]): string => {
    const offset = offsetOf(document.contents, path);
    return offset === undefined ? '' : `line ${counter.linePos(offset).line}`;
  };
  return { tree: tree as Record<string, unknown>, lineOf };
}

function offsetOf(root: ParsedNode | null, path: readonly PropertyKey[]): number | undefined {
  let node: unknown = root;
  let offset: number | undefined;
  for (const key of path) {
    if (!isMap(node)) break;
    const pair = node.items.find(
      (item) => isPair(item) && String((item.key as { value?: unknown }).value) === String(key),
    );
    if (!pair) break;
    offset = (pair.key as ParsedNode).range[0];
    node = pair.value;
  }
  return offset;
}

/** Puts the overrides into `tree`; gives back which path each one set. */
function applyOverrides(
  tree: Record<string, unknown>,
  overrides: Overrides,
  mistakes: Mistake[],
): { path: string; source: string }[] {
  const origins: { path: string; source: string }[] = [];
  for (const text of overrides.set ?? []) {
    const source = `--set ${text}`;
    const at = text.indexOf('=');
    const path = text.slice(0, at).trim();
    if (at < 1) {
      mistakes.push({ path: [], source, what: 'must have the form path=value' });
    } else if (!nodeAt(path.split('.'))) {
      const near = nearestKey(path, knownPaths());
      mistakes.push({ path: [], source, what: `unknown path${near ? `; did you mean ${near}?` : ''}` });
    } else {
      const document = parseDocument(text.slice(at + 1), { prettyErrors: false });
      const [problem] = document.errors;
      if (problem)
        mistakes.push({ path: [], source, what: `the value is not valid YAML: ${problem.message}` });
      else assign(tree, path.split('.'), document.toJS());
      origins.unshift({ path, source });
    }
  }
  if (overrides.seed !== undefined) {
    assign(tree, ['run', 'seed'], overrides.seed);
    origins.unshift({ path: 'run.seed', source: `--seed ${overrides.seed}` });
  }
  return origins;
}

/** Sets a value, making sections on the way; `null` where the schema knows no null takes the key away. */
function assign(tree: Record<string, unknown>, path: string[], value: unknown): void {
  let at = tree;
  for (const key of path.slice(0, -1)) {
    const child = at[key];
    if (typeof child !== 'object' || child === null || Array.isArray(child)) at[key] = {};
    at = at[key] as Record<string, unknown>;
  }
  const last = path.at(-1)!;
  const nullable = nodeAt(path)?.anyOf?.some((option) => option.type === 'null') ?? false;
  if (value === null && !nullable) delete at[last];
  else at[last] = value;
}

/** The schema's issues in our words, and the rules across fields where the schema did not get to them. */
function schemaMistakes(tree: unknown, issues: readonly z.core.$ZodIssue[]): Mistake[] {
  const own = issues.filter((issue) => issue.code !== 'custom');
  const mistakes = own.flatMap((issue) => mistakesOf(tree, issue));
  const wrong = own.filter(({ code }) => code !== 'unrecognized_keys').map(({ path }) => path);
  const broken = brokenRules(withDefaults(blank(tree, wrong)));
  return [...mistakes, ...broken.map(({ path, message }) => ({ path, what: message }))];
}

/** A copy with null in place of the values at `paths`: no rule may ask that another field agrees with a wrong one. */
function blank(tree: unknown, paths: readonly (readonly PropertyKey[])[]): unknown {
  const copy = structuredClone(tree);
  for (const path of paths) {
    const section = path.length > 1 ? valueAt(copy, path.slice(0, -1).join('.')) : copy;
    const key = path.at(-1);
    if (typeof section === 'object' && section !== null && key !== undefined && Object.hasOwn(section, key))
      (section as Record<PropertyKey, unknown>)[key] = null;
  }
  return copy;
}

function mistakesOf(tree: unknown, issue: z.core.$ZodIssue): Mistake[] {
  const path = [...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const section = valueAt(tree, path.join('.'));
    return issue.keys.map((key) => {
      const { known, kinds } = sectionKeys(path, section, key);
      const near = nearestKey(key, known);
      const what =
        kinds.length > 0
          ? `only with ${[...path, 'kind'].join('.')} ${kinds.join(' or ')}`
          : `unknown key; ${near ? `did you mean ${near}?` : `known here: ${known.join(', ')}`}`;
      return { path: [...path, key], what };
    });
  }
  const node = nodeAt(path);
  const allowed = node ? describeNode(node) : issue.message;
  // A message of the schema's own says why, beside what is allowed.
  const own = /^(Invalid|Too|Unrecognized)/.test(issue.message) ? '' : ` (${issue.message})`;
  const given = valueAt(tree, path.join('.'));
  const what =
    given === undefined
      ? `missing; give ${allowed}${own}`
      : `${show(given)} is not allowed; give ${allowed}${own}`;
  return [{ path, what }];
}

/** A value as the user wrote it, short, with its kind where that is the likely mistake. */
function show(value: unknown): string {
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function configError(
  name: string,
  mistakes: Mistake[],
  place: (path: readonly PropertyKey[]) => string,
): UserError {
  const lines = mistakes.map(({ path, what, source }) => {
    const at = source ?? place(path);
    const line = `\n  ${at ? `${at}: ` : ''}${path.length > 0 ? `${path.join('.')}: ` : ''}${what}`;
    // An address may hold a password where none is allowed.
    return line.replace(/:\/\/[^\s/]*@/g, '://…@');
  });
  const count = mistakes.length === 1 ? '1 mistake' : `${mistakes.length} mistakes`;
  return new UserError(
    `${count} in the configuration${lines.join('')}`,
    name,
    'correct them and start again',
  );
}
