/**
 * `npx tsx scripts/mean-of-seeds.ts runs/a runs/b …`: ended runs that differ by their seed, read as one: the figures of
 * each, and the paired comparisons with every question's mean over the runs. Prints tables and, as its last line, one
 * JSON object.
 */
import { basename, dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { messageOf, UserError } from '../src/base/errors.ts';
import { readJsonFile } from '../src/base/read-json.ts';
import { mean } from '../src/base/statistics.ts';
import { loadConfig } from '../src/config/load.ts';
import type { PolicyEvaluation } from '../src/eval/evaluate-policy.ts';
import { formatTable } from '../src/report/tables.ts';
import { loadData } from '../src/trainer/prepare.ts';
import { compare, comparisonTable, type FinalReport } from '../src/trainer/report-comparisons.ts';
import { runFolder } from '../src/trainer/run-folder.ts';
import { changedSettings } from '../src/trainer/same-run.ts';

/** A report is written by lexpo itself: what is checked is that it is one. */
const reportSchema = z.looseObject({
  before: z.looseObject({ perQuestion: z.array(z.unknown()).min(1) }),
  after: z.looseObject({ perQuestion: z.array(z.unknown()).min(1) }),
  comparisons: z.array(z.unknown()),
});

const recall = ({ recall: figure }: PolicyEvaluation): number => figure;

/** Rows of the table: what is read of each report, or null where it lacks. */
const FIGURES: [string, (report: FinalReport) => number | null][] = [
  ['single-pass', (r) => recall(r.singlePass)],
  ['before', (r) => recall(r.before)],
  ['after', (r) => recall(r.after)],
  ['before, mean sample', (r) => (r.sampled ? mean(r.sampled.before.map(recall)) : null)],
  ['after, mean sample', (r) => (r.sampled ? mean(r.sampled.after.map(recall)) : null)],
];

async function main(): Promise<void> {
  const { positionals } = parseArgs({ allowPositionals: true });
  if (positionals.length < 2)
    throw new UserError(
      'two runs or more are needed',
      'arguments',
      'Name their folders, such as runs/stard-1.',
    );
  const runs = positionals.map((root) => {
    const folder = runFolder({ run: { dir: dirname(root), name: basename(root), seed: 0 } });
    return {
      root,
      config: loadConfig(folder.config),
      report: readJsonFile(
        folder.report,
        reportSchema,
        'Train the run to its end.',
      ) as unknown as FinalReport,
    };
  });
  const [first] = runs as [(typeof runs)[0]];
  for (const { root, config } of runs) {
    const plain = ({ run, ...rest }: typeof config) => ({ ...rest, run: { ...run, name: '', seed: 0 } });
    const changed = changedSettings(plain(first.config), plain(config));
    // More steps are no other run to a resume, but they are another to a mean.
    if (config.train.steps !== first.config.train.steps) changed.push('train.steps');
    if (changed.length > 0)
      throw new UserError(
        `differs from ${first.root} by ${changed.join(', ')}`,
        root,
        'Only the seed may differ.',
      );
  }
  const data = await loadData(first.config);
  const { k } = first.config.eval;
  const reports = runs.map(({ report }) => report);
  const rows = FIGURES.flatMap(([name, of]) => {
    const values = reports.map(of);
    return values.some((value) => value === null) ? [] : [{ name, values: values as number[] }];
  });
  const comparisons = compare(reports, data, first.config);
  const seeds = runs.map(({ config }) => config.run.seed);
  console.log(
    formatTable(
      [`recall@${k}`, ...seeds.map((seed) => `seed ${seed}`), 'mean'],
      rows.map(({ name, values }) => [name, ...[...values, mean(values)].map((x) => x.toFixed(3))]),
    ),
  );
  console.log(`\n${comparisonTable(comparisons, k)}`);
  const recalls = Object.fromEntries(rows.map(({ name, values }) => [name, values]));
  console.log(JSON.stringify({ runs: runs.map(({ root }) => root), seeds, recalls, comparisons }));
}

main().catch((error: unknown) => {
  console.error(`error: ${messageOf(error)}`);
  process.exitCode = 1;
});
