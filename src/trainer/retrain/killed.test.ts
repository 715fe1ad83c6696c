import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { isTemporary } from '../../base/atomic-write.ts';
import { currentChampion, readHistory, setFile } from './registry.ts';
import { newPlace } from './test-support-retrain.ts';

/** What a job tells right after it has written down something that counts. */
const POINTS = [
  'next is train',
  'next is evaluate',
  'next is end',
  'kept',
  'the champion is',
  'in the history',
];

/** A process that runs one job and kills itself at the first of these points that no process before it came to. */
const PROGRAM = `
  import { appendFileSync, existsSync, readFileSync } from 'node:fs';
  const url = (name) => new URL(name, ${JSON.stringify(import.meta.url)}).href;
  const { fakeTools } = await import(url('./test-support-retrain.ts'));
  const { retrain } = await import(url('./retrain.ts'));
  const [root] = process.argv.slice(1);
  const config = JSON.parse(readFileSync(root + '/config.json', 'utf8'));
  const told = root + '/told';
  const worth = (name) => (name === null ? 0.25 : 0.5);
  const tools = fakeTools(worth, {
    log(line) {
      const known = existsSync(told) ? readFileSync(told, 'utf8').split('\\n') : [];
      if (known.includes(line) || !${JSON.stringify(POINTS)}.some((point) => line.includes(point))) return;
      appendFileSync(told, line + '\\n');
      process.kill(process.pid, 'SIGKILL');
    },
  });
  const { signal } = new AbortController();
  await retrain({ config, trigger: 'hand', fresh: false, signal }, tools);
`;

test('a job killed at every one of its points ends as one that was not', { timeout: 120_000 }, () => {
  const place = newPlace();
  const { root, config, registry } = place;
  try {
    place.put(0, 5);
    writeFileSync(join(root, 'inbox', 'z.jsonl'), '{"id": "x", "query": "q", "gold": ["zz"]}\n');
    writeFileSync(join(root, 'config.json'), JSON.stringify(config));
    const champion = 'nightly-20261201-1-v3';
    let kills = 0;
    for (;;) {
      const { status, signal, stderr } = spawnSync(
        process.execPath,
        ['--import', 'tsx', '--input-type=module', '-e', PROGRAM, root],
        { encoding: 'utf8' },
      );
      if (status === 0) break;
      expect({ status, signal, stderr }).toEqual({ status: null, signal: 'SIGKILL', stderr: '' });
      kills++;
      expect(kills).toBeLessThan(40);
      // At no moment does the pointer name what is not there whole.
      const now = currentChampion(registry);
      if (now !== null) {
        expect(now).toBe(champion);
        expect(readdirSync(join(registry.champions, now))).toHaveLength(3);
      }
      if (readHistory(registry).length > 0) expect(now).toBe(champion);
    }
    const told = readFileSync(join(root, 'told'), 'utf8').trim().split('\n');
    expect(kills).toBe(told.length);
    for (const point of POINTS) expect(told.filter((line) => line.includes(point))).toHaveLength(1);
    const history = readHistory(registry);
    // The last process found its job ended, and nothing new.
    expect(history.map(({ kind }) => kind)).toEqual(['promoted', 'nothing']);
    expect(history[0]).toMatchObject({ after: champion, before: null, pairs: { train: 5, refused: 1 } });
    expect(
      readFileSync(setFile(registry, history[0]!.trainingSet!.hash), 'utf8').trim().split('\n'),
    ).toHaveLength(8);
    expect(existsSync(registry.job)).toBe(false);
    const left = readdirSync(registry.root, { recursive: true, encoding: 'utf8' });
    expect(left.filter((name) => isTemporary(basename(name)))).toEqual([]);
    expect(readdirSync(registry.champions)).toEqual([champion]);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
