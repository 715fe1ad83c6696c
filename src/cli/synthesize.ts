/** `lexpo synthesize`: a teacher's episodes as demonstrations, right ones only, and none that gives a test away. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomic } from '../base/atomic-write.ts';
import { UserError } from '../base/errors.ts';
import { readJsonLines } from '../base/jsonl.ts';
import { loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { createScreen } from '../report/progress.ts';
import { createEnvironment } from '../trainer/environment.ts';
import { type Data, loadData } from '../trainer/prepare.ts';
import { writeDemonstrations } from '../trainer/sft/demonstration-file.ts';
import { synthesisText } from '../trainer/sft/synthesis-text.ts';
import { type Source, synthesize, type TestText } from '../trainer/sft/synthesize.ts';
import { teacherOf } from '../trainer/sft/teacher.ts';
import { interruptible } from './interrupt.ts';
import type { Streams } from './main.ts';

export interface SynthesizeCommandOptions {
  set: string[];
  seed?: number;
  out: string;
  rollouts: number;
  accept: number;
  test: string[];
  ngram: number;
  maxOverlap: number;
  force?: boolean;
}

/** Synthesizes; gives the exit code. */
export async function synthesizeCommand(
  file: string,
  options: SynthesizeCommandOptions,
  streams: Streams,
): Promise<number> {
  const config = loadConfig(file, options);
  const { out, rollouts, accept, ngram, maxOverlap } = options;
  if (!/\.jsonl(\.gz)?$/.test(out))
    throw new UserError('must end in .jsonl or .jsonl.gz', out, 'such as --out demonstrations.jsonl.gz');
  if (existsSync(out) && !options.force)
    throw new UserError('is there already', out, 'give another --out, or --force to replace it');
  const screen = createScreen(streams.stdout, () => performance.now());
  const onFirst = (name: string): void => screen.print(`${name}: stopping; nothing is written`);
  return interruptible(onFirst, async (signal) => {
    // What it is to make may be named there already.
    const data = await loadData({ ...config, sft: undefined });
    const tests = [...heldOut(config, data), ...(await Promise.all(options.test.map(testTexts))).flat()];
    const environment = createEnvironment(config, data, { say: screen.print });
    const teacher = teacherOf(config, screen.print);
    screen.print(`teacher: ${teacher.name}`);
    const bar = screen.start('question', data.train.length);
    const { records, report } = await synthesize(environment, teacher, data.train, tests, sourcesOf(data), {
      rollouts,
      accept,
      ngram,
      maxOverlap,
      seed: config.run.seed,
      ...teacher.sampling,
      signal,
      onQuestion: (done) => bar.update(done, ''),
    }).finally(() => bar.end());
    await writeFileAtomic(`${out}.report.json`, `${JSON.stringify(report, null, 2)}\n`);
    screen.print(synthesisText(report));
    if (records.length === 0)
      throw new UserError(
        `no clean episode is worth ${accept} or more`,
        teacher.name,
        `see ${out}.report.json; take another teacher or other questions, or lower --accept`,
      );
    await writeDemonstrations(out, records);
    screen.print(`${records.length} episodes in ${out}, the report beside it`);
  });
}

const heldOut = (config: Config, { validation }: Data): TestText[] =>
  validation.map(({ id, query }) => ({ file: config.data.validation, id, text: query }));

const testSchema = z
  .looseObject({ id: z.string().optional(), query: z.string().optional(), question: z.string().optional() })
  .refine(({ query, question }) => query ?? question, 'a field query or question is needed');

/** The questions of another test file: lines of `{id?, query}` or `{id?, question}`. */
async function testTexts(path: string): Promise<TestText[]> {
  const texts: TestText[] = [];
  await readJsonLines(path, testSchema, ({ id, query, question }, line) => {
    texts.push({ file: path, id: id ?? `line ${line}`, text: (query ?? question)! });
  });
  return texts;
}

/** What the tools of the teacher's world say, beside the law itself. */
const sourcesOf = ({ precedents }: Data): Source[] =>
  precedents
    ? [{ name: 'precedents', texts: precedents.cases.map(({ id, fact }) => ({ id, text: fact })) }]
    : [];
