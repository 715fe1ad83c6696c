/**
 * Writes data/demo from the tables in scripts/demo-data, or with `--check` fails when the committed files
 * differ from what the tables give; `--measure` prints what plain BM25 and an oracle's rewrites find.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buildDemoData } from './demo-data/build.ts';
import { figures, lookUp } from './demo-data/measure.ts';

const root = join(import.meta.dirname, '..', 'data', 'demo');
const { files, statutes, train, validation } = buildDemoData();
if (process.argv.includes('--measure')) {
  const label = (list: typeof train) => list.map(({ text, gold, kind }) => ({ query: text, gold, kind }));
  const labelled = label(validation);
  const kinds = ['single', 'compound', 'procedural'] as const;
  console.log(`${statutes.length} statutes, ${train.length} training questions`);
  console.table({
    validation: figures(statutes, labelled),
    ...Object.fromEntries(
      kinds.map((kind) => [
        kind,
        figures(
          statutes,
          labelled.filter((q) => q.kind === kind),
        ),
      ]),
    ),
  });
  console.log(`look-up in the training questions: recall@10 ${lookUp(label(train), labelled).toFixed(3)}`);
} else if (process.argv.includes('--check')) {
  const stale = [...files].filter(([name, content]) => {
    const path = join(root, name);
    return !existsSync(path) || readFileSync(path, 'utf8') !== content;
  });
  for (const [name] of stale) console.error(`data/demo/${name} is not what the tables give`);
  if (stale.length > 0) {
    console.error('run: npx tsx scripts/build-demo-data.ts');
    process.exitCode = 1;
  } else console.log(`data/demo: ${files.size} files match the tables`);
} else {
  for (const [name, content] of files) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), content);
  }
  console.log(`data/demo: wrote ${[...files.keys()].join(', ')}`);
}
