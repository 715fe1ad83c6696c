/**
 * Writes data/demo from the tables in scripts/demo-data, or with `--check` fails when the committed files
 * differ from what the tables give.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buildDemoData } from './demo-data/build.ts';

const root = join(import.meta.dirname, '..', 'data', 'demo');
const { files } = buildDemoData();
if (process.argv.includes('--check')) {
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
