import { expect, test } from 'vitest';
import { adapterName, newestAdapter, parseAdapterName } from './adapter-name.ts';

test('a name says its version and attempt, whatever the run is called', () => {
  for (const run of ['demo', 'demo-v2', 'a-r3', 'x-v1-r2'])
    for (const about of [
      { version: 0, attempt: 1 },
      { version: 40, attempt: 1 },
      { version: 4, attempt: 12 },
    ])
      expect(parseAdapterName(adapterName(run, about))).toEqual(about);
  expect(adapterName('demo', { version: 4, attempt: 1 })).toBe('demo-v4');
  expect(adapterName('demo', { version: 4, attempt: 2 })).toBe('demo-v4-r2');
});

test('temporary folders and other files have no such name', () => {
  for (const name of ['demo', 'demo-4', '.demo-v11.tmp-1-0', '.demo-v11', 'demo-v4.json', 'demo-v'])
    expect(parseAdapterName(name)).toBeNull();
});

test('the newest is the highest version, of that the last attempt', () => {
  expect(newestAdapter(['a-v9', 'a-v10', '.a-v12.tmp-1-0', 'notes', 'a-v2'])).toBe('a-v10');
  expect(newestAdapter(['a-v3-r2', 'a-v3', 'a-v3-r10'])).toBe('a-v3-r10');
  expect(newestAdapter(['notes'])).toBeUndefined();
});
