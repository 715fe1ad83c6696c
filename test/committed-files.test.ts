import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../src/config/load.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

describe('the configurations that come with the project', () => {
  it.each(readdirSync(join(root, 'configs')))('%s is valid', (name) => {
    expect(loadConfig(join(root, 'configs', name), { set: [] }).run.name).not.toBe('');
  });

  it('are what the services of docker/compose.yaml are given', () => {
    const { services } = parse(readFileSync(join(root, 'docker/compose.yaml'), 'utf8'), { merge: true }) as {
      services: Record<string, { command: string[] }>;
    };
    const settingsOf = (command: string[]): string[] => command.filter((_, i) => command[i - 1] === '--set');
    const [train, work] = [services.trainer!.command, services.worker!.command];
    expect([train[0], work[0]]).toEqual(['train', 'worker']);
    // A worker with other settings than the trainer's would refuse the run.
    expect(settingsOf(work)).toEqual(settingsOf(train));
    const config = loadConfig(join(root, train[1]!), { set: settingsOf(train) });
    expect(config.endpoint).toMatchObject({ kind: 'vllm', replicas: [{ url: 'http://vllm:8000' }] });
    expect(config.pool?.redis.url).toBe('redis://redis:6379');
  });
});

/** Files in git, where there is one; a folder that was copied without it has nothing to look at. */
function tracked(): string[] {
  try {
    return execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
      .split('\0')
      .filter(Boolean);
  } catch {
    return [];
  }
}

it('no committed description of a model or an adapter holds the path of the machine that made it', () => {
  const found = tracked()
    .filter((name) => /(^|\/)(adapter_config|config|vectors)\.json$/.test(name))
    .filter((name) => /"(\/[A-Za-z]|[A-Z]:\\)[^"\n]*\//.test(readFileSync(join(root, name), 'utf8')));
  expect(found).toEqual([]);
});

it('no link is committed: where it is checked out it takes the place of what is there', () => {
  const links = tracked().filter((name) =>
    lstatSync(join(root, name), { throwIfNoEntry: false })?.isSymbolicLink(),
  );
  expect(links).toEqual([]);
});
